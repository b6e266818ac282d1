"""The names, options and help of the commands for interfaces."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.options import Json, group

idl_app = group("Definitions of interfaces: check, format and compare them, and write code.")
Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Files, or folders with all *.idl in them.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(idl_app, name="idl")


@idl_app.command()
def check(paths: Paths, json: Json = False) -> None:
    """Say everything that is wrong with definitions. Exit code 1 if anything is."""
    from broker.cli.idl import check_definitions

    raise typer.Exit(check_definitions(paths, as_json=json))


@idl_app.command("format")
def format_(
    paths: Paths,
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if a file would change.")
    ] = False,
    json: Json = False,
) -> None:
    """Lay files out in the one way. Comments stay."""
    from broker.cli.idl import format_files

    raise typer.Exit(format_files(paths, only_check=only_check, as_json=json))


@idl_app.command()
def python(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder with all *.idl in it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the package; its modules are written anew.")],
    json: Json = False,
) -> None:
    """Write Python: types, clients, servers and a command line for each version of an interface."""
    from broker.cli.idl import write_python

    raise typer.Exit(write_python(path, out, as_json=json))


@idl_app.command()
def ocaml(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder with all *.idl in it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for dune; its libraries are written anew.")],
    package: Annotated[
        str, typer.Option("--package", help="The package whose subpackages they are.")
    ] = "chain",
    json: Json = False,
) -> None:
    """Write OCaml: types, clients and servers, a library for each version of an interface."""
    from broker.cli.idl import write_ocaml

    raise typer.Exit(write_ocaml(path, out, package=package, as_json=json))


@idl_app.command()
def docs(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder with all *.idl in it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the pages, which are written anew.")],
    since: Annotated[
        Path | None, typer.Option("--since", help="The same, as it was: pages tell what has changed.")
    ] = None,
    package: Annotated[
        str, typer.Option("--package", help="The generated package that examples import.")
    ] = "chain",
    json: Json = False,
) -> None:
    """Write pages for a browser: types, functions, changes, and programs to be copied."""
    from broker.cli.idl import write_documents

    raise typer.Exit(write_documents(path, out, since=since, package=package, as_json=json))


@idl_app.command()
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A file or folder, as it was.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same, as it is to be.")],
    json: Json = False,
) -> None:
    """Say whom changes would break: old callers or servers. Exit code 1 if a version does not say it."""
    from broker.cli.idl import compare_definitions

    raise typer.Exit(compare_definitions(old, new, as_json=json))
