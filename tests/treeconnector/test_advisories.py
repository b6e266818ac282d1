from sapwood.protocol.destinations import Kind
from treeconnector import advisories
from treeconnector.advisories import Backlog
from treeconnector.frames import Advice


def test_a_backlog_keeps_the_last_word_on_each_key() -> None:
    backlog = Backlog()
    backlog.add([Advice("add", Kind.QUEUE, "orders"), Advice("add", Kind.TOPIC, "orders")])
    backlog.add([Advice("remove", Kind.QUEUE, "orders")])
    assert len(backlog) == 2
    assert repr(backlog) == "<Backlog advices=2>"
    assert backlog.drain() == [Advice("remove", Kind.QUEUE, "orders"), Advice("add", Kind.TOPIC, "orders")]
    assert backlog.drain() == []


def test_everything_that_is_promised_is_there() -> None:
    assert all(hasattr(advisories, name) for name in advisories.__all__)
