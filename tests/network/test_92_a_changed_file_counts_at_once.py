"""A site's file, read again, takes a role or a permit away: links that are up obey, and what waits."""

from typing import Any

from commands import told
from harness import Network, receiving, until_count
from quick import QUICK_SITE


async def reload(network: Network, **changes: Any) -> dict[str, Any]:
    network.configure("hq", **QUICK_SITE, **changes)
    done: dict[str, Any] = await told(network, "hq", "permits", "reload")
    return done


def children(**uk: Any) -> list[dict[str, Any]]:
    return [{"name": "uk", **uk}, {"name": "leeds"}]


async def test_a_link_ends_when_the_file_takes_the_role_away_that_it_has(network: Network) -> None:
    network.add("hq", children=children(role="branch", nodes=["york"]), **QUICK_SITE)
    network.add("uk", "hq", role="branch", **QUICK_SITE)
    network.add("leeds", "hq", **QUICK_SITE)
    await network.start()
    await network.until_child("hq", "uk")
    done = await reload(network, children=children(role="leaf"))
    assert (done["turned_away"], done["needs_restart"]) == (["uk"], [])
    await network.until_child("hq", "uk", "down")
    await network.until(
        "uk", lambda status: "as a leaf, not as a branch" in str(status["parent"]), "told its role"
    )
    await network.until_child("hq", "leeds")
    later = {"http": {"token_env": "ANOTHER"}, "metrics": {"max_queues": 7}, "tree": "other"}
    done = await reload(network, children=children(role="branch", nodes=["york"]), **later)
    assert done["turned_away"] == []
    assert done["needs_restart"] == ["tree", "http.token_env", "metrics.max_queues"]
    await network.until_child("hq", "uk")


async def test_what_waits_for_a_child_that_may_not_have_it_any_more_is_a_dead_letter(
    network: Network,
) -> None:
    network.add("hq", permits={"consume": ["prices/#", "news/#"]}, **QUICK_SITE)
    network.add("york", "hq", **QUICK_SITE)
    await network.start()
    async with network.client("york", session="till") as york:
        for pattern in ("prices/#", "news/#"):
            async with receiving(york, f"topic:{pattern}", durable=pattern[:4]):
                await network.until_known("hq", f"topic:{pattern}")
    assert await network.stop("york") == 0
    for topic in ("prices/tea", "news/today"):
        await network.send("hq", f"topic:{topic}", [b"1", b"2"])
    await reload(network, permits={"consume": ["news/#"]})
    status = await network.until("hq", lambda status: status["dead"]["messages"] == 2, "burying it")
    assert all(reason.startswith("PERMIT: ") and "prices" in reason for reason in status["dead"]["reasons"])
    await network.start("york")
    await network.until_drained("hq")
    async with (
        network.client("york", session="till") as york,
        receiving(york, "topic:news/#", durable="news") as news,
    ):
        await until_count(news, 2)
        assert [each.payload for each in news] == [b"1", b"2"]
