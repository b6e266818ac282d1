"""What is wrong on a link is told to both sides, and the other links go on."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from typing import Any

import msgspec
from harness import Network, child_state
from hostile import WITNESS, Peer, peer, undisturbed, until_logged
from quick import QUICK_SITE, numbers

from sapwood.protocol import bundles, packets
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import queue
from treeconnector import frames
from treeconnector.frames import Bundle, Frame, Position
from treeconnector.identity import BundleIds, new_uuid

SECRET = "not to be guessed by anybody"


async def until_refused(network: Network, child: str, text: str) -> None:
    """Wait until the child's status says why its parent does not take it."""
    await network.until(
        child, lambda status: text in str((status["parent"] or {}).get("dialling")), f"told {text!r}"
    )
    assert text in network.nodes[child].last_words()


# --- nodes that are configured wrong


def _proving(network: Network, secret: str, nodetype: str = "leaf") -> dict[str, Any]:
    file = network.folder / f"{new_uuid(token_bytes).hex()}.secret"
    _write_secret(file, secret)
    uri = f"ws://127.0.0.1:{network.ports['hq']}/link"
    return {"tree_connectors": [{"nodetype": nodetype, "uri": uri, "secret_file": file.name}]}


def _write_secret(file: Path, secret: str) -> None:
    file.write_text(secret, encoding="utf-8")
    file.chmod(0o600)


async def test_a_wrong_secret_and_a_missing_permit_are_refused(network: Network) -> None:
    _write_secret(network.folder / "children", f"{WITNESS} {SECRET}\nyork {SECRET}\n")
    network.add("hq", children_secrets="children", **QUICK_SITE)
    network.add(WITNESS, "hq", **_proving(network, SECRET), **QUICK_SITE)
    network.add("york", "hq", **_proving(network, "something quite different"), **QUICK_SITE)
    network.add("bath", "hq", **_proving(network, SECRET), **QUICK_SITE)
    await network.start("hq", WITNESS)
    async with undisturbed(network):
        await network.launch("york")
        await network.launch("bath")
        wrong = "york does not have the secret that is configured for it here"
        await until_refused(network, "york", wrong)
        await until_logged(network, "hq", wrong)
        await until_refused(network, "bath", "has no permit for a child 'bath'")
        await until_logged(network, "hq", "has no permit for a child 'bath'")
        status = await network.status("hq")
        assert [link["name"] for link in status["children"]] == [WITNESS]
        assert SECRET not in network.nodes["hq"].last_words(500)


async def test_wrong_trees_names_and_parents_are_refused(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    network.add("bath", "hq", **(QUICK_SITE | {"tree": "other"}))
    network.add("york", WITNESS, **QUICK_SITE)
    await network.start("hq", WITNESS)
    async with undisturbed(network):
        for name in ("bath", "york"):
            await network.launch(name)
        await until_refused(network, "bath", "bath belongs to tree other, its parent hq belongs to tree test")
        await until_logged(network, "hq", "bath belongs to tree other")
        await until_refused(network, "york", "403")
        for name in ("bath", "york"):
            assert await network.stop(name) == 0


def _rename(network: Network, process: str, name: str) -> None:
    """Let a node say that it is `name`; the network still knows its process by its own name."""
    file = network.nodes[process].file
    site = json.loads(file.read_text(encoding="utf-8"))
    site["broker"]["name"] = name
    file.write_text(json.dumps(site), encoding="utf-8")


async def test_one_name_below_two_regions_is_refused_to_the_later(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    for region in ("north", "south"):
        network.add(region, "hq", role="branch", **QUICK_SITE)
    network.add(WITNESS, "south", **QUICK_SITE)
    network.add("york", "north", **QUICK_SITE)
    network.add("second", "south", **QUICK_SITE)
    _rename(network, "second", "york")
    await network.start("hq", "north", "south", WITNESS, "york")
    async with undisturbed(network, "south"):
        await network.launch("second")
        await network.until(
            "second", lambda status: "'york' is live" in status["parent"]["dialling"]["error"], "told of york"
        )
        await until_logged(network, "south", "'york' is live")
        network.nodes["second"].kill()
        await network.until("south", lambda status: child_state(status, "york") != "running", "without york")
        assert child_state(await network.status("north"), "york") == "running"
        await network.send("hq", "queue:till@york", numbers(20))
        assert await network.collect("york", "queue:till", 20) == numbers(20)


async def test_two_branches_cannot_be_each_others_parent(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    network.add("north", "hq", role="branch", **QUICK_SITE)
    network.add("south", "north", role="branch", **QUICK_SITE)
    network.configure("north", "south", role="branch")
    await network.start("hq", WITNESS)
    async with undisturbed(network):
        await network.launch("north")
        await network.launch("south")
        for one in ("north", "south"):
            await network.until(one, lambda _: True, "running")
        await _until_any(network, ("north", "south"), "each other's parent", "own chain of parents")


async def _until_any(network: Network, names: tuple[str, ...], *texts: str) -> None:
    """Wait until all of `names` have logged one of `texts`."""
    for name in names:
        await network.until(
            name,
            lambda _status, name=name: any(text in network.nodes[name].last_words(100) for text in texts),  # type: ignore[misc]
            f"logging one of {texts}",
        )


async def test_a_damaged_database_is_not_used_and_not_replaced(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    network.add("york", "hq", **QUICK_SITE)
    await network.start()
    async with undisturbed(network):
        assert await network.stop("york") == 0
        file = network.data("york") / "node.db"
        damaged = b"\xde\xad" * 4096
        file.write_bytes(file.read_bytes()[: -len(damaged)] + damaged)
        found = file.read_bytes()
        await network.launch("york")
        assert await network.nodes["york"].exited() == 1
        words = network.nodes["york"].last_words()
        assert "is damaged" in words
        assert "sapwood node recover" in words
        assert file.read_bytes() == found
        await network.until_child("hq", "york", "down")


# --- peers that are no nodes


def _with(**changed: Any) -> Callable[[Peer], Frame]:
    return lambda peer: msgspec.structs.replace(peer.hello, **changed)


def _truncated(peer: Peer) -> bytes:
    return packets.packet([frames.encode(peer.hello)])[:-7]


FIRST_WORDS: dict[str, tuple[Callable[[Peer], Frame | bytes], str, str]] = {
    "garbage": (lambda _: b"\xc1garbage \xff\x00", "protocol", "not a packet of frames"),
    "nothing": (lambda _: packets.packet([]), "protocol", "a packet without frames"),
    "a truncated hello": (_truncated, "protocol", "not a packet of frames"),
    "an oversized packet": (lambda _: bytes(80_000), "protocol", "80000 bytes: 65536 at most"),
    "no hello": (lambda _: frames.Ack(1), "protocol", "Ack frame while greeting: expected Hello"),
    "a later version": (_with(version=9, oldest=8), "version", "mallory speaks versions 8 to 9, hq speaks"),
    "a second root": (_with(role="root"), "second-root", "two roots cannot be in one tree"),
    "another tree": (_with(tree="other"), "wrong-tree", "mallory belongs to tree other"),
    "the parent's name": (_with(name="hq", chain=["hq"]), "name-in-use", "both ends are named hq"),
    "an impossible name": (_with(name="a/b c", chain=["a/b c"]), "protocol", "a hello that cannot be"),
}


async def test_bad_first_words_are_refused_with_a_reason(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    await network.start()
    async with undisturbed(network):
        for what, (said, reason, text) in FIRST_WORDS.items():
            async with peer(network) as mallory:
                await mallory.say(said(mallory))
                refused = await mallory.last_word()
            assert refused.reason == reason, (what, refused)
            assert text in refused.text, what
            await until_logged(network, "hq", refused.text)
        assert [link["name"] for link in (await network.status("hq"))["children"]] == [WITNESS]


def _bundle(number: int, origin: str = "mallory", name: str = "traps", count: int = 1) -> Bundle:
    body = bundles.encode_message(bundles.Message(str(number).encode()))
    header = Header(
        id=BundleIds(token_bytes).next(),
        destination=queue(name),
        flags=int(Flag.PERSISTENT),
        count=count,
        size=len(body),
        origin=origin,
    )
    return Bundle(number, bundles.encode_header(header), body)


LATER_WORDS: dict[str, tuple[list[Frame | bytes], str]] = {
    "garbage": ([b"\xc1\xff"], "not a packet of frames"),
    "a gap in the numbers": ([_bundle(1), _bundle(3)], "bundle 3"),
    "a replayed bundle": ([_bundle(1), _bundle(1)], "bundle 1"),
    "an ack of what was never sent": ([frames.Ack(7)], "7"),
    "a proof again": ([frames.Prove(proof=b"", position=Position())], "Prove frame while up"),
    "a chain from below": ([frames.Chain(["mallory", "hq"])], "Chain frame while up"),
    "an oversized packet": ([bytes(80_000)], "a packet of 80000 bytes: 65536 at most were agreed"),
    "a header of nothing": ([Bundle(1, b"\x00", b"")], "bundle version 0"),
}


async def test_bad_later_words_end_that_link_alone(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    await network.start()
    async with undisturbed(network):
        for number, (what, (said, text)) in enumerate(LATER_WORDS.items()):
            async with peer(network, f"mallory-{number}") as mallory:
                await mallory.shake_hands()
                await mallory.say(*said)
                refused = await mallory.last_word()
            assert refused.reason == "protocol", what
            assert text in refused.text, (what, refused)
            await until_logged(network, "hq", refused.text)
            await network.until_child("hq", f"mallory-{number}", "down")


async def test_a_packet_that_no_link_may_carry_is_not_even_read(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    await network.start()
    async with undisturbed(network):
        async with peer(network) as mallory:
            await mallory.shake_hands()
            with contextlib.suppress(ConnectionError):
                await mallory.say(bytes(4_000_000))
            async with asyncio.timeout(180):
                async for _ in mallory.socket:
                    pass
        status = await network.until_child("hq", "mallory", "down")
        error = next(link["error"] for link in status["children"] if link["name"] == "mallory")
        assert "1048576" in error or "1048577" in error


async def test_what_a_peer_cannot_have_sent_is_set_aside_and_counted(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add(WITNESS, "hq", **QUICK_SITE)
    await network.start()
    async with undisturbed(network), peer(network) as mallory:
        await mallory.shake_hands()
        await mallory.say(_bundle(1, "leeds"), _bundle(2))
        status = await network.until(
            "hq", lambda status: status["dead"]["messages"] == 1, "setting aside what is forged"
        )
        (reason,) = status["dead"]["reasons"]
        assert reason.startswith("ORIGIN: ")
        assert "leeds" in reason
        assert await network.collect("hq", "queue:traps", 1) == [b"2"]
