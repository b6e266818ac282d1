"""The command line, asked of a node of a `Network`."""

import asyncio
import json
import signal
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from harness import PATIENCE, WARNINGS_ARE_ERRORS, Network
from nursery import COMMANDS, nursery


async def ran(*words: object, given: bytes = b"", together: bool = False) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a command, in a process of its own that begins with the program loaded.

    `given`: its input. `together`: its errors stand in its output.
    """
    with TemporaryFile() as asked, TemporaryFile() as output, TemporaryFile() as errors:
        asked.write(given)
        asked.seek(0)
        files = [output.fileno(), output.fileno() if together else errors.fileno(), asked.fileno()]
        process = nursery(*COMMANDS, **WARNINGS_ARE_ERRORS).start(
            [str(word) for word in words], Path.cwd(), files, WARNINGS_ARE_ERRORS
        )
        try:
            code = await asyncio.wait_for(process.ended(), 2 * PATIENCE)
        finally:
            process.send_signal(signal.SIGKILL)
        output.seek(0)
        errors.seek(0)
        return code, output.read(), errors.read()


async def sapwood(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code, output, errors = await ran(*arguments)
    return code, output.decode(), errors.decode()


async def told(network: Network, node: str, *arguments: str) -> Any:
    """What a command says with --json, asked of a node."""
    code, output, errors = await sapwood(*arguments, "--json", "--url", network.url(node))
    assert code == 0, errors
    return json.loads(output)


async def refused(network: Network, node: str, *arguments: str, exit_code: int = 1) -> str:
    """What a command that fails says, asked of a node."""
    code, _, errors = await sapwood(*arguments, "--url", network.url(node))
    assert code == exit_code, errors
    return errors
