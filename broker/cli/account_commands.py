"""`sapwood account hash`: what a site's file names in the place of an application's password."""

import sys
from typing import Annotated

import typer

from broker.cli.options import Json, group

account_app = group("Accounts of applications.")


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(account_app, name="account")


@account_app.command("hash")
def account_hash(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The account, for a line of the file account_passwords.")
    ] = "",
    json: Json = False,
) -> None:
    """Print the hash of a password. The password is asked for, or read from standard input."""
    from broker.cli.output import print_json
    from broker.entrance.passwords import hashed

    made = hashed(_password())
    if json:
        print_json({"name": name, "hash": made})
    else:
        print(f"{name} {made}" if name else made)


def _password() -> str:
    """Never an argument: all on the machine can read those. Raises `CommandError`."""
    from broker.cli.errors import WRONG_USE, CommandError

    if not sys.stdin.isatty():
        lines = sys.stdin.read(4096).strip().splitlines()
        if len(lines) != 1:
            raise CommandError("expected one line on standard input: the password", WRONG_USE)
        return lines[0]
    from getpass import getpass

    password = getpass("Password: ").strip()
    if getpass("Once more: ").strip() != password:
        raise CommandError("these were two passwords: nothing was hashed", WRONG_USE)
    return password
