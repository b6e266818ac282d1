"""The page on changing an interface holds as it stands: comparisons, and two versions on one queue."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import running_node

from config.model import AdvisoryLog, Listener, Site

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "changing-an-interface.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in zip(("now", "minor", "major"), blocks("idl"), strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "prices.idl").write_text(text, "utf-8")
    return tmp_path


def ran(folder: Path, *words: object) -> str:
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_comparisons_say_what_the_page_says(folder: Path) -> None:
    for text in blocks("console"):
        command, _, said = text.partition("\n")
        assert ran(folder, "-m", "broker.cli", *command.removeprefix("$ sapwood ").split()) == said


async def test_both_versions_are_asked_on_one_queue(folder: Path) -> None:
    (folder / "both").mkdir()
    for name in ("now", "major"):
        (folder / name / "prices.idl").rename(folder / "both" / f"{name}.idl")
    ran(folder, "-m", "broker.cli", "idl", "python", "both", "--out", "chain")
    (folder / "server.py").write_text(blocks("python")[0], "utf-8")
    log = AdvisoryLog(enabled=False)
    async with running_node(
        Site(name="hq", data=folder / "data", listener=Listener(port=0), advisory_log=log)
    ) as node:
        await _ask(folder, f"http://127.0.0.1:{node.port}")


async def _ask(folder: Path, url: str) -> None:
    pipe, env = asyncio.subprocess.PIPE, os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "server.py", url, cwd=folder, env=env, stdout=pipe
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(60):
            assert await server.stdout.readline() == b"serving\n"
            words = ("--url", url, "--json", "price", "--article", "7")
            for module, said in (
                ("chain.shelf_v1", '{"cents":199}\n'),
                ("chain.shelf_v2", '{"price":{"cents":199,"currency":"EUR"}}\n'),
            ):
                assert await asyncio.to_thread(ran, folder, "-m", module, *words) == said
            assert await server.stdout.readline() == b"1.0 asks for 7\n"
    finally:
        server.kill()
        await server.communicate()
