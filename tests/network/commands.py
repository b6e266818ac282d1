"""The command line, asked of a node of a `Network`."""

import asyncio
import json
import sys
from typing import Any

from harness import PATIENCE, Network


async def sapwood(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode or 0, output.decode(), errors.decode()


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
