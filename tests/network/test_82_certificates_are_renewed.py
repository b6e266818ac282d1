"""Certificates that last seconds are renewed again and again; so is one that ended while its node was off."""

import asyncio
import time

from harness import Network, receiving, until_count
from invitations import GENEROUS, Host, adopt

from bridges import certificates
from broker.enrolment.joining import join


async def test_nothing_is_lost_while_certificates_change(network: Network) -> None:
    """The link goes on; after a kill the next one shows the new certificate, and so does the port."""
    hq = Host(network, "hq")
    await hq.start(lifetime="6s")
    folder = network.folder / "york"
    await join(await hq.invite("york"), folder)
    first = (folder / "tls" / "node.pem").read_bytes()
    adopt(network, "york", folder)
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    sent = [b"%d" % number for number in range(300)]
    async with (
        network.client("york") as reader,
        hq.client() as sender,
        receiving(reader, "queue:prices") as got,
    ):
        for part in range(3):
            await sender.send_many("queue:prices@york", sent[part * 100 : part * 100 + 100])
            await network.until(
                "york",
                lambda status, part=part: status["certificate"]["renewed"] > part,
                f"renewed {part + 1} times",
                GENEROUS,
            )
        network.kill("hq")
        await hq.launch()
        await until_count(got, 300, GENEROUS)
    assert [each.payload for each in got] == sent
    now = (folder / "tls" / "node.pem").read_bytes()
    assert certificates.facts(now).key != certificates.facts(first).key
    await network.nodes.until_linked("york", GENEROUS)


async def test_an_ended_certificate_is_renewed_by_its_key(network: Network) -> None:
    hq = Host(network, "hq")
    await hq.start(lifetime="1s")
    folder = network.folder / "york"
    await join(await hq.invite("york"), folder)
    ends = certificates.facts((folder / "tls" / "node.pem").read_bytes()).ends
    await network.stop("hq")
    hq.settle(lifetime="1h")
    while time.time() < ends + 1:
        await asyncio.sleep(0.2)
    await hq.launch()
    adopt(network, "york", folder)
    await network.launch("york")
    await network.nodes.until_linked("york", GENEROUS)
    status = await network.status("york")
    assert status["certificate"]["renewed"] == 1
