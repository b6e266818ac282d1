"""Runs the nightly program of kill rounds for a short while; its checker knows journals and no node."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "nightly" / "kill_rounds.py"
LATEST = 120.0
"""Seconds after the last node is back: more than is promised, since a busy machine is no fault of ours."""


async def run(*options: str, until: Callable[[], bool] | None = None) -> tuple[int, str]:
    """Its exit code and its output. `until`: once this holds, it is interrupted."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        interrupting = asyncio.create_task(_interrupt(process, until)) if until is not None else None
        output, _ = await process.communicate()
        if interrupting is not None:
            await interrupting
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def _interrupt(process: asyncio.subprocess.Process, until: Callable[[], bool]) -> None:
    while not until():
        assert process.returncode is None, "it has ended before"
        await asyncio.sleep(0.1)
    process.send_signal(signal.SIGINT)


async def expect_nothing_wrong(
    folder: Path, trials: list[str], *options: str, until: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """Nothing is lost, comes twice unmarked, from nowhere or late; returns what was counted."""
    said = ["--json", "--folder", str(folder), *(f"--trial={kind}" for kind in trials)]
    code, output = await run(*said, *options, until=until)
    print(output)
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert code == 0
    assert (found["lost"], found["unmarked"], found["strange"]) == (0, 0, 0)
    assert (found["calls_without_an_end"], found["wrong_answers"]) == (0, 0)
    assert found["worst_late"] < LATEST
    return found
