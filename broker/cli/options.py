"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:7600"

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The site's configuration, XML or YAML.")]
Url = Annotated[str, typer.Option("--url", help="The node's address.", envvar="SAPWOOD_URL")]
UrlToo = Annotated[str, typer.Option("--url", help="The same as the argument.", show_default=False)]
UrlArgument = Annotated[
    str, typer.Argument(metavar="[URL]", help=f"The node's address. [default: {DEFAULT_URL}]")
]
Token = Annotated[
    str,
    typer.Option(
        "--token", help="Token for status and administration.", envvar="SAPWOOD_TOKEN", show_default=False
    ),
]
Authorities = Annotated[
    Path | None, typer.Option("--ca", help="PEM file of the authorities that https and wss must come from.")
]
Certificate = Annotated[
    Path | None,
    typer.Option("--certificate", help="PEM file of our own certificate, for nodes that demand one."),
]
Key = Annotated[
    Path | None, typer.Option("--key", help="PEM file of its key, if it is not in the same file.")
]
Session = Annotated[str, typer.Option("--session", help="Client identity at the node; made up if absent.")]
Secret = Annotated[
    str,
    typer.Option(
        "--secret", help="Session secret, where the node wants one.", envvar="SAPWOOD_SESSION_SECRET"
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many at most.")]
Search = Annotated[str, typer.Option("--search", help="Only those whose name holds this text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask on the terminal first.")]


def address(argument: str, option: str) -> str:
    """The node's address of a command that takes it both ways."""
    import os

    return argument or option or os.environ.get("SAPWOOD_URL", "") or DEFAULT_URL
