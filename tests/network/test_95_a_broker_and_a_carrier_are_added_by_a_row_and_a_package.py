"""A new kind of site broker, and a new carrier: one row in `config/schemes.py` and a package each, no more.

Our packages are copied into a folder, the row and the package are added there, and real nodes run from it.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
from harness import PATIENCE, Network

import config
from config.kinds import Fault
from config.uris import BROKER_URI, LINK_URI

OURS = Path(config.__file__).parent.parent
TOYS = Path(__file__).parent / "95_toys"
TABLE = "PROTOCOLS: Final = (\n"

Grow = Callable[[str, dict[str, str]], Path]


def toybox() -> Any:
    """The toy broker, which runs in the test's process."""
    spec = spec_from_file_location("toybox", TOYS / "toybox.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Toybox()


@pytest.fixture
def grow(tmp_path: Path) -> Grow:
    """Makes the folder: our packages, one row, and new files, by where they go."""

    def grown(row: str, files: dict[str, str]) -> Path:
        folder = tmp_path / "tree"
        for package in ("bridges", "broker", "config", "sapwood", "treeconnector"):
            shutil.copytree(OURS / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        table = folder / "config" / "schemes.py"
        head, found, rest = table.read_text().partition(TABLE)
        assert found
        *rows, tail = rest.split("\n)\n", 1)
        table.write_text(f"{head}{TABLE}{rows[0]}\n    {row},\n)\n{tail}")
        for place, source in files.items():
            (folder / place).parent.mkdir(exist_ok=True)
            shutil.copy(TOYS / source, folder / place)
        assert run(folder, "config.schema").returncode == 0
        return folder

    return grown


def run(folder: Path, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A program of the folder's."""
    return subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def accepted(folder: Path, document: dict[str, Any], xml: str) -> None:
    """The folder's schemas accept a site's file, as YAML and as XML; and its own reader does."""
    schemas = folder / "config" / "schema"
    jsonschema.validate(document, json.loads((schemas / "sapwood.schema.json").read_text()))
    xmlschema.XMLSchema(schemas / "sapwood.xsd").validate(xml)
    file = folder.parent / "site.xml"
    file.write_text(xml)
    checked = run(folder, "broker.cli", "node", "check", str(file), "--json")
    assert not [each for each in json.loads(checked.stdout)["findings"] if each["state"] == "failed"], checked


async def until_told(reader: asyncio.StreamReader, **expected: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while json.loads(await reader.readline()) != expected:
            pass


async def test_a_site_broker_is_its_package_and_a_row(network: Network, grow: Grow) -> None:
    with pytest.raises(Fault, match="expected 'embedded' or a URI"):
        BROKER_URI.parse("toy://127.0.0.1:9")
    row = 'Protocol("toy", "Toy", 9, site_broker="toy", product="Toybox")'
    folder = grow(row, {"bridges/site_brokers/toy/__init__.py": "site_broker.py"})
    async with toybox() as box:
        uri = f"toy://127.0.0.1:{box.port}"
        network.add("hq", site_broker={"uri": uri})
        network.environments["hq"] = {"PYTHONPATH": str(folder)}
        document = json.loads(network.nodes["hq"].file.read_text())
        accepted(folder, document, f'<broker name="hq" tree="test"><siteBroker uri="{uri}"/></broker>')
        await network.start()
        await network.until("hq", lambda status: status["site_broker"]["broker"] == "a Toybox", "there")
        reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
        writer.write(b'{"read": "prices"}\n')
        await network.until(
            "hq", lambda status: "topic:prices" in status["site_broker"]["consumers"], "told who reads"
        )
        await network.send("hq", "topic:prices", [b"9"])
        await until_told(reader, topic="prices", body="9")
        async with network.client("hq") as client, asyncio.timeout(PATIENCE):
            coming = client.subscribe("topic:till")
            receiving = asyncio.ensure_future(anext(aiter(coming)))
            await box.until_read("till")
            writer.write(b'{"say": "till", "body": "sold", "number": 1}\n')
            delivery = await receiving
            delivery.ack()
            assert delivery.payload == b"sold"
        writer.close()
        assert await network.stop("hq") == 0


async def test_a_carrier_is_its_adapter_and_a_row(network: Network, grow: Grow) -> None:
    with pytest.raises(Fault, match="expected a URI such as"):
        LINK_URI.parse("toy://127.0.0.1:9")
    row = 'Protocol("toy", "Toy", 9, carrier="toy", brokered=True)'
    folder = grow(row, {"bridges/carriers/toy.py": "carrier.py"})
    async with toybox() as box:
        uri = f"toy://127.0.0.1:{box.port}"
        network.add("hq", listener={"link_brokers": [{"uri": uri, "proves_names": True}]})
        network.add("york", "hq", tree_connectors=[{"nodetype": "leaf", "uri": uri}])
        network.environments = {name: {"PYTHONPATH": str(folder)} for name in ("hq", "york")}
        document = json.loads(network.nodes["york"].file.read_text())
        connector = f'<treeConnectors><treeConnector nodetype="leaf" uri="{uri}"/></treeConnectors>'
        accepted(folder, document, f'<broker name="york" tree="test">{connector}</broker>')
        await network.start()
        await network.until_child("hq", "york")
        await network.send("hq", "queue:down", [b"1", b"2"])
        assert await network.collect("york", "queue:down", 2) == [b"1", b"2"]
        await network.send("york", "queue:up", [b"3"])
        assert await network.collect("hq", "queue:up", 1) == [b"3"]
        for name in ("york", "hq"):
            assert await network.stop(name) == 0
