"""`sapwood node run`: load the file, set the log up, run the node until it is told to stop."""

from dataclasses import replace
from pathlib import Path


def run_file(file: Path, *, log_json: bool) -> int:
    """Run the node that the file describes; return the exit code. Raises `ConfigurationError`."""
    from config.load import load

    site = load(file)
    if log_json:
        site = replace(site, log=replace(site.log, format="json"))
    from broker.process import run_node

    return run_node(site)
