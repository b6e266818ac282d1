"""`sapwood operator token`: a token for whoever administrates a node, and its place in the file."""

from typing import Annotated

import typer

from broker.cli.options import Json, group

operator_app = group("People and programs that administrate a node.")


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(operator_app, name="operator")


@operator_app.command("token")
def operator_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The operator's name.")],
    role: Annotated[
        str, typer.Option(help="viewer, operator or administrator.", show_default=True)
    ] = "viewer",
    json: Json = False,
) -> None:
    """Make a token, and the lines of a node's file that let it in. The token is shown this once."""
    from broker.cli.errors import WRONG_USE, CommandError
    from broker.cli.output import print_json
    from broker.entrance.operators import hash_of, new_token
    from config.kinds import Fault
    from config.operators import RESERVED, ROLES
    from config.values import NAME
    from config.write import yaml_scalar

    if role not in ROLES:
        raise CommandError(f"role {role!r}: expected {', '.join(ROLES)}", WRONG_USE)
    if name in RESERVED:
        raise CommandError(f"{name!r} means {RESERVED[name]}: name the operator otherwise", WRONG_USE)
    try:
        NAME.parse(name)
    except Fault as fault:
        raise CommandError(f"the operator's name: {fault}", WRONG_USE) from None
    token = new_token()
    hashed = hash_of(token)
    if json:
        print_json({"name": name, "role": role, "token": token, "token_hash": hashed})
        return
    print(f"token of {name}, shown this once:\n  {token}\n")
    print("for the node's file (then `sapwood permits reload`):")
    print(f"  operators:\n    - {{name: {yaml_scalar(name)}, role: {role}, token_hash: {hashed}}}")
