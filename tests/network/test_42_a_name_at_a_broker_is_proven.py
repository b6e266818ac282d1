"""At a broker nobody is another: by a secret, or by the broker's permissions, or not at all."""

from pathlib import Path

from aiohttp import ClientSession
from harness import Network
from mosquitto_server import MosquittoServer
from quick import QUICK_SITE


def secret(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


async def test_without_proof_nobody_is_let_in_and_a_secret_is_one(
    network: Network, mosquitto: MosquittoServer
) -> None:
    mosquitto.start()
    uri = mosquitto.uri
    network.add("hq", listener={"link_brokers": [{"uri": uri}]}, **QUICK_SITE)
    network.add("york", "hq", tree_connectors=[{"nodetype": "leaf", "uri": uri}], **QUICK_SITE)
    for name in ("hq", "york"):
        await network.launch(name)
    await network.until_refused("york", "accepts children without a secret at no broker")
    right = secret(network.folder, "right", "hush")
    await network.stop("hq")
    network.configure("hq", children=[{"name": "york", "secret_file": right}])
    await network.launch("hq")
    await network.until_refused("york", "secret")
    await network.stop("york")
    connector = {"nodetype": "leaf", "uri": uri, "secret_file": right}
    network.configure("york", "hq", tree_connectors=[connector])
    await network.launch("york")
    await network.nodes.until_linked("york")
    (seen,) = (await network.status("hq"))["link_brokers"]
    assert (seen["state"], seen["links"]) == ("listening", 1)
    async with ClientSession() as http, http.get(f"{network.url('hq')}/metrics") as answer:
        text = await answer.text()
    assert f'sapwood_link_broker_up{{broker="{uri}"}} 1\n' in text
    assert f'sapwood_link_broker_links{{broker="{uri}"}} 1\n' in text
    async with ClientSession() as http, http.get(f"{network.url('hq')}/api/links") as answer:
        (link,) = (await answer.json())["links"]
    assert (link["over"], link["proof"]) == (f"{uri} (york)", "its secret")
