"""The list of exchanges that a message was published under, however often a node stops meanwhile."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq.changeover import Changeover
from bridges.site_brokers.rabbitmq.exchanges import Exchanges

OLD = Exchanges("amq.topic", [("sales", "shop/")])
NEW = Exchanges("amq.topic", [("sales", "till/")])


class Queue:
    """A connection to a broker whose queue of topics has so many messages."""

    def __init__(self, messages: int) -> None:
        self._messages = messages

    async def channel(self) -> Any:
        async def declare(*_: Any, **__: Any) -> Any:
            return SimpleNamespace(messages=self._messages)

        async def close() -> None:
            pass

        return SimpleNamespace(declare=declare, close=close)


async def begun(exchanges: Exchanges, directory: Path, messages: int = 0) -> Changeover:
    changeover = Changeover(exchanges, directory)
    queue: Any = Queue(messages)
    await changeover.begin(queue)
    return changeover


def message(tag: int) -> Incoming:
    return cast("Incoming", SimpleNamespace(tag=tag))


def lists(changeover: Changeover, count: int) -> list[str]:
    """The prefix of sales in the list of each of the next messages of a channel."""
    return [changeover.exchanges_of(message(tag)).prefixes["sales"] for tag in range(1, count + 1)]


async def test_after_a_version_that_wrote_nothing_down_the_list_is_unchanged(tmp_path: Path) -> None:
    assert lists(await begun(OLD, tmp_path, messages=3), 3) == ["shop/"] * 3
    assert lists(await begun(NEW, tmp_path, messages=3), 4) == ["shop/"] * 3 + ["till/"]


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"sales":"shop/"}', b'{"exchanges":{"sales":1}}'])
async def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, damaged: bytes) -> None:
    await begun(OLD, tmp_path)
    (tmp_path / "rabbitmq-exchanges.json").write_bytes(damaged)
    assert lists(await begun(NEW, tmp_path, messages=3), 3) == ["till/"] * 3


async def test_a_node_that_stops_in_the_middle_goes_on_where_it_was(tmp_path: Path) -> None:
    await begun(OLD, tmp_path)
    changeover = await begun(NEW, tmp_path, messages=5)
    changeover.settled(message(3))
    changeover = await begun(NEW, tmp_path, messages=7)  # two of them are left, and five are new
    assert lists(changeover, 7) == ["shop/"] * 2 + ["till/"] * 5
    changeover.settled(message(2))
    assert lists(await begun(NEW, tmp_path, messages=5), 5) == ["till/"] * 5


async def test_messages_of_a_new_channel_are_counted_anew(tmp_path: Path) -> None:
    await begun(OLD, tmp_path)
    changeover = await begun(NEW, tmp_path, messages=5)
    changeover.settled(message(4))
    changeover.opened()
    assert lists(changeover, 3) == ["shop/", "till/", "till/"]


async def test_what_was_taken_away_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    await begun(OLD, tmp_path)
    await begun(NEW, tmp_path, messages=5)
    assert lists(await begun(NEW, tmp_path, messages=1), 2) == ["shop/", "till/"]


async def test_a_disk_that_takes_nothing_ends_the_visit_and_is_asked_again(tmp_path: Path) -> None:
    await begun(OLD, tmp_path)
    changeover = await begun(NEW, tmp_path, messages=2)
    in_the_way = tmp_path / ".rabbitmq-exchanges.json.new"
    in_the_way.mkdir()
    with pytest.raises(SiteBrokerError, match="cannot be written"):
        changeover.settled(message(2))
    in_the_way.rmdir()
    assert lists(await begun(NEW, tmp_path, messages=2), 3) == ["shop/", "shop/", "till/"]
