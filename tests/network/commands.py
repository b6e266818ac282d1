"""The command line, asked of a node of a `Network`."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import IO, Any

from harness import PATIENCE, Network
from nursery import NurseryChild, command, content


class Running:
    """A command while it runs."""

    def __init__(self, process: NurseryChild, output: IO[bytes], errors: IO[bytes]) -> None:
        self.process = process
        self._output, self._errors = output, errors
        self._read = {output: 0, errors: 0}

    async def prints(self) -> str:
        """Wait for the next line of its output; what it said to the end, if it ends first."""
        return await self._line(self._output)

    async def complains(self) -> str:
        """Likewise of its errors."""
        return await self._line(self._errors)

    async def _line(self, file: IO[bytes]) -> str:
        """Wrinkle: the file's position is the command's as well, so it stays where it is."""
        async with asyncio.timeout(PATIENCE):
            while True:
                over = self.process.poll() is not None
                line, end, _ = os.pread(file.fileno(), 1 << 16, self._read[file]).partition(b"\n")
                if over or end:
                    self._read[file] += len(line + end)
                    return (line + end).decode()
                await asyncio.sleep(0.01)

    async def ended(self) -> tuple[int, bytes, bytes]:
        """Wait for its end: exit code, output and errors."""
        code = await asyncio.wait_for(self.process.ended(), 2 * PATIENCE)
        return code, content(self._output), content(self._errors)


@contextlib.asynccontextmanager
async def running(*words: object, given: bytes = b"", together: bool = False) -> AsyncIterator[Running]:
    """A command; it is killed at the end. `given`, `together`: as of `command`."""
    with command(words, given, together=together) as (child, output, errors):
        yield Running(child, output, errors)


async def ran(*words: object, given: bytes = b"", together: bool = False) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of a command. `given`, `together`: as of `command`."""
    async with running(*words, given=given, together=together) as run:
        return await run.ended()


async def sapwood(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code, output, errors = await ran(*arguments)
    return code, output.decode(), errors.decode()


async def printed(*arguments: str) -> str:
    """The output of a command that ends well."""
    code, output, errors = await sapwood(*arguments)
    assert code == 0, (output, errors)
    return output


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
