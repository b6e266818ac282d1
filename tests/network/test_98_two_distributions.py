"""The wheels of client and node: built as for a release, each installed into an environment of its own.

Proven here: both are built from their sdists, pip installs them without a network, each has its own packages
only, and an application that has the client's wheel alone speaks with a node that runs from the other. The
packages that both need are those of this environment, laid beside them one by one: each finds no more than
its wheel asks for. That an index has them is not proven.
"""

import asyncio
import runpy
import subprocess
import sys
import tarfile
import venv
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from harness import Network

ROOT = Path(__file__).parents[2]
NODE = {"audit", "bridges", "broker", "config", "interfaces", "simulation", "treeconnector"}
closure = runpy.run_path(str(ROOT / "requirements" / "licences.py"))["closure"]
APPLICATION = """
import asyncio, importlib.util, sys
from sapwood import connect

async def main():
    async with connect(sys.argv[1]) as client:
        await client.create("prices")
        await client.send("queue:prices", b"46")
        async for delivery in client.subscribe("queue:prices"):
            print(delivery.payload.decode(), *filter(importlib.util.find_spec, sys.argv[2:]))
            return delivery.ack()

asyncio.run(main())
"""


SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.2, which Debian 12 has, does not know the word."""


def built(folder: Path, out: Path) -> Path:
    """The wheel, by way of an sdist, as `python -m build` makes it."""
    sdist = made("build_sdist", folder, out)
    with tarfile.open(sdist) as archive:
        archive.extractall(out, **SAFELY)
    return made("build_wheel", out / sdist.name.removesuffix(".tar.gz"), out)


def made(kind: str, source: Path, out: Path) -> Path:
    backend = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"
    words = [sys.executable, "-P", "-c", backend, kind, str(out)]
    done = subprocess.run(words, cwd=source, check=True, capture_output=True, text=True)
    return out / done.stdout.strip().splitlines()[-1]


def needs(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []
    return [each for each in told if "extra ==" not in each]


def packages(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}


def installed(wheels: list[Path], folder: Path) -> Path:
    """The Python of a fresh environment with these wheels, and beside them what they ask for.

    The pip is that of this environment: to lay one into each is most of what this takes.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    beside = folder / "beside"
    beside.mkdir()
    for name in closure([need for wheel in wheels for need in needs(wheel)]):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (beside / top).symlink_to(Path(str(found.locate_file(top))))
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "beside.pth").write_text(f"{beside}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", *map(str, wheels)], check=True)
    return python


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("dist")
    return {"client": built(ROOT / "client", out), "node": built(ROOT, out)}


def test_each_wheel_has_its_own_packages(wheels: dict[str, Path]) -> None:
    assert packages(wheels["client"]) == {"sapwood"}
    assert packages(wheels["node"]) == NODE
    assert {need.split(">")[0] for need in needs(wheels["client"])} == {"aiohttp", "msgspec", "zstandard"}
    version = wheels["client"].name.split("-")[1]
    ours = [need for need in needs(wheels["node"]) if need.startswith("sapwood")]
    assert ours == [f"sapwood-client=={version}"]
    assert wheels["node"].name.split("-")[:2] == ["sapwood_node", version]


def test_a_wheel_made_in_a_checkout_asks_no_index_for_the_client(tmp_path: Path) -> None:
    """Beside an address pip would look for the version in an index all the same."""
    ours = [need for need in needs(made("build_wheel", ROOT, tmp_path)) if need.startswith("sapwood")]
    assert ours == [f"sapwood-client @ {(ROOT / 'client').as_uri()}"]


async def test_an_application_with_the_client_alone_speaks_with_a_node_from_the_other_wheel(
    wheels: dict[str, Path], network: Network, tmp_path: Path
) -> None:
    node = installed(list(wheels.values()), tmp_path / "node")
    application = installed([wheels["client"]], tmp_path / "application")
    told = subprocess.run(
        [node.with_name("sapwood"), "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["sapwood", wheels["node"].name.split("-")[1]]
    network.add("hq")
    log = (tmp_path / "node.log").open("wb")
    program = [str(node.with_name("sapwood")), "node", "run", str(network.nodes["hq"].file)]
    running = await asyncio.create_subprocess_exec(*program, cwd=tmp_path, stdout=log, stderr=log)
    try:
        await listening(network.ports["hq"])
        words = [str(application), "-c", APPLICATION, network.url("hq"), *sorted(NODE)]
        told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (told.stdout, told.stderr) == ("46\n", ""), (tmp_path / "node.log").read_text()
    finally:
        running.terminate()
        await running.wait()
        log.close()
    assert running.returncode == 0


async def listening(port: int) -> None:
    """Wait until somebody listens there."""
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
