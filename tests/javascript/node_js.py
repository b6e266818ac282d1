"""Programs in JavaScript for the library as it stands in the checkout, run by the system's Node.js.

A Node.js before 20.10 has no WebSocket of its own: there it is that of the package `ws`, as Debian has it.
"""

import asyncio
import functools
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LIBRARY: Final = ROOT / "javascript"
PATIENCE: Final = 60.0
_HEAD: Final = """
import { createInterface } from "node:readline";
import * as sapwood from "%(library)s/src/index.js";
const { connect, Rpc, ServiceError } = sapwood;
const [, , url, ...words] = process.argv;
const asked = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const told = async () => JSON.parse((await asked.next()).value);
const shown = (_, each) => (typeof each === "bigint" ? `${each}n` : each);
const say = (value) => console.log(JSON.stringify(value, shown));
const failure = (error) => ({ ...error, name: error.name, message: error.message, cause: undefined });
const failed = (promise) => promise.then((value) => ({ value }), failure);
"""
_TAIL: Final = "\nprocess.stdin.destroy();\n"
_WS: Final = """
import { createRequire } from "node:module";
globalThis.WebSocket = createRequire("/usr/share/nodejs/")("ws");
"""


@functools.cache
def command(folder: Path) -> tuple[str, ...]:
    """How a program is run whose WebSocket is there."""
    own = ("node", "--no-warnings", "--experimental-websocket")
    if subprocess.run([*own, "-e", "WebSocket"], capture_output=True).returncode == 0:
        return own
    beside = folder / "ws.mjs"
    beside.write_text(_WS)
    return ("node", "--no-warnings", "--import", beside.as_uri())


class Program:
    """One that runs; it says, and is told, lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self) -> Any:
        """Its next line. `AssertionError` with its errors if it has ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
            assert line, (await self.process.stderr.read()).decode()
        return json.loads(line)

    def tell(self, value: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def running(folder: Path, source: str, *words: str, **environment: str) -> AsyncIterator[Program]:
    """A program, as an ES module: `url` and `words` are its words, `say` and `told` its lines."""
    file = folder / f"program-{len(list(folder.iterdir()))}.mjs"
    file.write_text(_HEAD % {"library": LIBRARY} + source + _TAIL)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(
        *command(folder), file, *words, env=os.environ | environment, limit=1 << 24, **pipes
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(folder: Path, source: str, *words: str, **environment: str) -> list[Any]:
    """All that a program says until it ends, which it does without an error."""
    async with running(folder, source, *words, **environment) as program, asyncio.timeout(PATIENCE):
        output, errors = await program.process.communicate()
    assert program.process.returncode == 0, errors.decode()
    return [json.loads(line) for line in output.splitlines()]
