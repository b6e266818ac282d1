"""`sapwood node run`: load the file, set the log up, run the node until it is told to stop."""

from dataclasses import replace
from pathlib import Path

from broker.cli.errors import WRONG_USE, CommandError


def run_file(file: Path, *, log_json: bool) -> int:
    """Run the node of this file; return the exit code. Raises `ConfigurationError` or `CommandError`."""
    from broker.cli.unsupported import what_is_missing
    from config.load import load

    site = load(file)
    missing = list(what_is_missing(site))
    if missing:
        raise CommandError("\n".join(f"{file}: {text}" for text in missing), WRONG_USE)
    if log_json:
        site = replace(site, log=replace(site.log, format="json"))
    from broker.process import run_node

    return run_node(site)
