"""`sapwood node run`: load the file, set the log up, run the node until it is told to stop."""

import gc
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bridges.unneeded import without

if TYPE_CHECKING:
    from config.model import Site


def run_file(file: Path, *, log_json: bool) -> int:
    """Run the node of this file; return the exit code. Raises `ConfigurationError` or `CommandError`."""
    # A hangup would end the process: it waits until the node runs.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    gc.disable()  # what is loaded stays: the collector would look at it again and again, and find nothing
    with without(absent=("typing_extensions",)):  # it says what this Python has in `typing` too
        import msgspec as msgspec
    from broker.process import run_node
    from config.load import load

    gc.freeze()
    gc.enable()

    def read() -> "Site":
        site = load(file)
        return replace(site, log=replace(site.log, format="json")) if log_json else site

    return run_node(read(), read)
