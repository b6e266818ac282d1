"""Interest from below: a raw child asks for more topics than there may be, or for what is none, and goes."""

import psutil
import pytest
from harness import Network
from hostile import WITNESS, undisturbed
from thieves import thief

from treeconnector.frames import AskInterest
from treeconnector.link_events import PeerTellsInterest

MIB = 1 << 20
MANY = 12_000


async def start(network: Network) -> None:
    rules = {"consume": ["nothing"], "send": ["t/#"]}
    witness = {"name": WITNESS, "consume": ["#"], "send": ["#"]}
    network.add("hq", children=[{"name": "mallory", **rules}, witness])
    network.add(WITNESS, "hq")
    await network.start()


async def test_a_child_that_asks_for_too_much_and_goes_costs_its_siblings_nothing(network: Network) -> None:
    """It learns nothing of what it may not send but yes."""
    await start(network)
    hq = psutil.Process(network.nodes["hq"].pid)
    async with undisturbed(network):
        before = hq.memory_info().rss
        for turn in range(5):
            async with thief(network) as child:
                names = [f"t/{turn}/{number}" for number in range(MANY)]
                for start_at in range(0, MANY, 500):
                    topics = [*names[start_at : start_at + 499], f"wages/{start_at}"]
                    child.link.say.ask_interest([(name, True) for name in topics])
                    await child.say(*child.link.data_to_send())

                def told(kind: str) -> set[str]:
                    return {name for each in child.heard(PeerTellsInterest) for name in getattr(each, kind)}

                await child.until(lambda: len(told("wanted") | told("unwanted")) == MANY, "all is answered")
                assert not any(name.startswith("wages/") for name in told("unwanted") | told("unsure"))
                assert 9_000 < len(told("unwanted")) < MANY
        assert hq.memory_info().rss - before < 60 * MIB


@pytest.mark.parametrize("topic", ["", "t/+", "t/#", "t//\x00", "t/" + "x" * 70_000, "/" * 5000])
async def test_what_is_no_topic_ends_that_link_alone(network: Network, topic: str) -> None:
    await start(network)
    async with undisturbed(network), thief(network) as child:
        await child.say(AskInterest([topic]))
        assert await child.until_ended()
