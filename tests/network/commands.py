"""The command line, asked of a node of a `Network`."""

import asyncio
import json
from typing import Any

from harness import PATIENCE, Network
from nursery import command, content


async def ran(*words: object, given: bytes = b"", together: bool = False) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a command. `given`, `together`: as of `command`."""
    with command(words, given, together=together) as (child, output, errors):
        code = await asyncio.wait_for(child.ended(), 2 * PATIENCE)
        return code, content(output), content(errors)


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
