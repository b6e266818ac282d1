"""Every program on the pages of interfaces runs as it stands, in both languages: a server, and who asks it.

Those in OCaml are compiled with the warnings that dune makes errors. Each talks with one in Python.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nodes import running_node

from config.model import AdvisoryLog, Listener, Site
from interfaces.load import load
from interfaces.site.pages import write_pages
from sapwood import NobodyServes

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "interfaces"
sys.path[:0] = [str(ROOT / "tests" / each) for each in ("interfaces", "network", "ocaml")]
from every import FILES, package  # noqa: E402
from nursery import forked  # noqa: E402
from page_programs import Programs, libraries, programs_of  # noqa: E402
from workspace import SECOND, STREAMS, environment, ran  # noqa: E402

PATIENCE = 120.0
_WARNINGS = "@1..3@5..28@30..39@43@46..47@49..57@61..62@67@69@70-40-41-42-44-45-48-58-59-60-66-70"
AS_DUNE = ("-w", _WARNINGS, "-strict-sequence", "-strict-formats")
BESIDE = {"SAPWOOD_CHANNEL": str(Path(sys.executable).with_name("sapwood-channel"))}
CATALOGUES = {"chain": 14, "every": 5, "streams": 3}
"""The packages, and how many functions each has."""


@pytest.fixture(autouse=True)
def _forked_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes beside channels are forks."""
    monkeypatch.setattr("sapwood.channels.ends.subprocess", forked())


def catalogue(name: str, folder: Path) -> list[Programs]:
    """The programs on its pages; the Python package that they import can be imported."""
    if name == "chain":
        sys.path.insert(0, str(EXAMPLES / "python"))
        return programs_of(write_pages(load(EXAMPLES)))
    package(folder, {**FILES, "second.idl": SECOND} if name == "every" else STREAMS, name)
    return programs_of(write_pages(load(folder / "idl"), package=name))


@contextlib.asynccontextmanager
async def at_hq(folder: Path) -> AsyncIterator[str]:
    """The address of a node."""
    async with running_node(
        Site(name="hq", data=folder, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    ) as node:
        yield f"http://127.0.0.1:{node.port}"


def patient(text: str) -> str:
    """A program waits ten seconds for an answer: on a busy machine its channels take longer to begin."""
    return re.sub(r"\btimeout([=:])10\b", rf"timeout\g<1>{PATIENCE:.0f}", text)


def program(text: str) -> Any:
    made: dict[str, Any] = {"__name__": "example"}
    exec(compile(patient(text), "example", "exec"), made)
    return made["main"]


@contextlib.asynccontextmanager
async def beside(served: Any) -> AsyncIterator[None]:
    serving = asyncio.create_task(served)
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("name", CATALOGUES)
async def test_every_program_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = catalogue(name, tmp_path)
    async with at_hq(tmp_path) as url:
        for each in programs:
            client, server = each.python["client"], each.python["server"]
            async with beside(program(server)(url)):
                await answered(program(client), url)
                shown = capsys.readouterr().out
                assert shown.count("\n") == client.count("print(") + server.count("print("), each
    assert len(programs) == CATALOGUES[name]


def test_each_client_of_the_pages_has_a_time_that_is_made_longer_here(tmp_path: Path) -> None:
    for each in catalogue("chain", tmp_path):
        for text in (each.python["client"], each.ocaml["client"]):
            assert re.findall(r"timeout[=:]\d+", patient(text)) in (["timeout=120"], ["timeout:120"])


async def answered(client: Any, url: str) -> None:
    """The server may not serve yet."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client(url)
            except NobodyServes:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.parametrize("name", CATALOGUES)
async def test_every_program_in_ocaml_talks_with_one_in_python(
    name: str, tmp_path: Path, ocaml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = catalogue(name, tmp_path)
    compile_all(ocaml, tmp_path, programs)
    async with at_hq(tmp_path) as url:
        for each in programs:
            client, server = (tmp_path / each.place / f"{side}.cmo" for side in ("client", "server"))
            async with beside(program(each.python["server"])(url)):
                shown = await lines(ocaml, client, url, each.shows("client"))
            async with running(ocaml, server, url) as process:
                await answered(program(each.python["client"]), url)
                shown += await read(process, each.shows("server"))
            assert all(shown), each
    assert len(programs) == CATALOGUES[name]


def compile_all(ocaml: Path, folder: Path, programs: list[Programs]) -> None:
    """Into bytecode, with the libraries that each names and no others; those that name the same, together."""
    sources: dict[str, list[Path]] = {}
    for each in programs:
        (folder / each.place).mkdir()
        for side, text in each.ocaml.items():
            source = folder / each.place / f"{side}.ml"
            source.write_text(patient(text), "utf-8")
            sources.setdefault(",".join(libraries(text)), []).append(source)
    for named, files in sources.items():
        ran(ocaml, "ocamlfind", "ocamlc", "-thread", "-package", named, *AS_DUNE, "-c", *files)


@contextlib.asynccontextmanager
async def running(ocaml: Path, made: Path, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    library = {"CAML_LD_LIBRARY_PATH": str(ocaml / "_build" / "install" / "default" / "lib" / "stublibs")}
    process = await asyncio.create_subprocess_exec(
        *("ocamlrun", ocaml / "_build" / "default" / "programs" / "page.bc", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env=os.environ | environment(ocaml) | library | BESIDE | {"PROGRAM": str(made)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read(process: asyncio.subprocess.Process, count: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return [(await process.stdout.readline()).decode() for _ in range(count)]


async def lines(ocaml: Path, made: Path, url: str, count: int) -> list[str]:
    """All that a client shows, until it has ended. The server may not serve yet."""
    said = b"NOBODY_SERVES"
    async with asyncio.timeout(PATIENCE):
        while b"NOBODY_SERVES" in said:
            async with running(ocaml, made, url) as process:
                shown, said = await process.communicate()
    assert process.returncode == 0, said
    found = shown.decode().splitlines()
    assert len(found) == count, found
    return found
