"""`sapwood context`: names for nodes, so that commands need neither address nor token."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.options import Authorities, Certificate, Json, Key, group

context_app = group("Names for nodes: where they are, and how to be let in.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(context_app, name="context")


@context_app.command("add")
def context_add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="The node's address.")],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File that holds an operator's token.")
    ] = None,
    ca: Authorities = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Name a node, or say anew where it is. The first one is the current one."""
    from broker.cli import contexts

    files = {"token_file": token_file, "ca": ca, "certificate": certificate, "key": key}
    given = {option: str(_there(option, file)) for option, file in files.items() if file is not None}
    kept = contexts.read()
    kept.add(name, contexts.NodeContext(_address(url), **given))
    contexts.write(kept)


def _there(option: str, file: Path) -> Path:
    """The place of a file, from wherever a command is given. Raises `CommandError`."""
    from broker.cli.errors import WRONG_USE, CommandError

    if not file.is_file():
        raise CommandError(f"--{option.replace('_', '-')} {file}: no such file", WRONG_USE)
    return file.absolute()


def _address(url: str) -> str:
    """Raises `CommandError` for what is no address of a node, or holds a password."""
    from urllib.parse import urlsplit

    from broker.cli.errors import WRONG_USE, CommandError

    try:
        parts = urlsplit(url)
        well = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        well = False
    if not well:
        raise CommandError("the address of a node looks so: https://hq.example:7600", WRONG_USE)
    return url


@context_app.command("use")
def context_use(name: Name) -> None:
    """Make a context the one for commands that name no node."""
    from broker.cli import contexts

    kept = contexts.read()
    kept.named(name)
    kept.current = name
    contexts.write(kept)


@context_app.command("list")
def context_list(json: Json = False) -> None:
    """List the contexts; the current one has a star."""
    from broker.cli import contexts
    from broker.cli.output import print_json, print_table, table

    kept = contexts.read()
    if json:
        import msgspec

        print_json({"file": str(contexts.file()), **msgspec.to_builtins(kept)})
        return
    made = table("", "context", "address", "token file")
    for name, context in sorted(kept.contexts.items()):
        made.add_row("*" if name == kept.current else "", name, context.url, context.token_file)
    print_table(made)


@context_app.command("remove")
def context_remove(name: Name) -> None:
    """Forget a context. Its files stay."""
    from broker.cli import contexts

    kept = contexts.read()
    kept.remove(name)
    contexts.write(kept)
