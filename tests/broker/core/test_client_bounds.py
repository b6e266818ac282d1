"""Applications can make a node keep so much and no more; a restart does not forget how much it is."""

from typing import Any

import pytest

from broker.core.clients import local_queues, switch
from broker.core.errors import BadRequest
from broker.core.routing import admission, topics
from broker.core.sessions.rights import Rights
from broker.core.sessions.sessions import Connection
from sapwood.protocol.destinations import topic
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.session_frames import EndSubscription, Failed, Subscribe
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.permits import Permit, application


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


class Application:
    """A session of such a name."""

    def __init__(self, forest: Forest, hq: Site, token: str) -> None:
        self.forest, self.hq = forest, hq
        self.failed: list[Failed] = []
        self.connection = Connection(self._came, "test")
        hq.core.switch.login(self.connection, token)

    def _came(self, frame: Any) -> None:
        if isinstance(frame, Failed):
            self.failed.append(frame)

    def create(self, *names: str) -> None:
        for name in names:
            self.hq.core.switch.create(self.connection, name)
        self.forest.settle()

    def keep(self, *names: str) -> list[str]:
        """Durable subscriptions: why the last of them was refused, if it was."""
        for number, name in enumerate(names):
            self._say(Subscribe(1, number, topic("prices"), 10, name))
        return [failed.text for failed in self.failed]

    def end(self, name: str) -> None:
        self._say(EndSubscription(1, name))

    def _say(self, frame: Any) -> None:
        self.hq.core.switch.receive(self.connection, [frame])
        self.forest.settle()

    def close(self) -> None:
        self.hq.core.switch.close(self.connection)
        self.forest.settle()


def test_a_node_has_so_many_queues_and_says_how_room_is_made(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_queues, "MOST_QUEUES", 3)
    Application(forest, hq, "a").create("one", "two", "three")
    with pytest.raises(BadRequest, match=r"3 queues made by applications.*\(sapwood queue delete NAME\)"):
        Application(forest, hq, "b").create("four")
    assert "queue:four" not in hq.core.custody.queues
    hq.crash()
    hq.boot()
    again = Application(forest, hq, "c")
    again.create("one")
    with pytest.raises(BadRequest):
        again.create("four")
    hq.core.removal.delete_queue("one")
    again.create("four")


def test_one_account_makes_so_many_queues_and_the_others_have_theirs(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever session makes them, and after a start."""
    monkeypatch.setattr(local_queues, "MOST_QUEUES_OF_ONE", 2)
    Application(forest, hq, "till/1").create("one", "two", "one")
    hq.crash()
    hq.boot()
    again = Application(forest, hq, "till/2")
    again.create("two")
    with pytest.raises(BadRequest, match=r"2 queues made by sessions called till/….*queue delete NAME"):
        again.create("three")
    Application(forest, hq, "york:1").create("three")
    Application(forest, hq, "anybody").create("four", "five", "six")
    hq.core.removal.delete_queue("one")
    again.create("seven")
    assert dict(hq.core.switch.local_queues._made_by) == {"till/": 2, "york:": 1}


def test_a_session_has_so_many_transient_queues(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_queues, "MOST_TRANSIENT", 2)
    greedy = Application(forest, hq, "a")
    greedy.create("", "")
    with pytest.raises(BadRequest, match="2 transient queues already"):
        greedy.create("")
    Application(forest, hq, "b").create("")


def test_all_sessions_have_so_many_transient_queues_together_and_one_account_its_part(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_queues, "MOST_TRANSIENT_OF_ONE", 2)
    monkeypatch.setattr(local_queues, "MOST_TRANSIENT_OF_ALL", 4)
    nothing = Rights("account till", "till/", Permit([application("hq", "till", (), ())]))
    tills = [Connection(lambda frame: None, "test", "http", nothing) for _ in range(3)]
    for number, till in enumerate(tills):
        hq.core.switch.login(till, f"s{number}")
    create = hq.core.switch.create
    first = [create(tills[0], ""), create(tills[1], "")]
    with pytest.raises(BadRequest, match="sessions called till/… have 2 transient queues"):
        create(tills[2], "")
    Application(forest, hq, "a").create("", "")
    with pytest.raises(BadRequest, match="sessions of this node have 4 transient queues"):
        Application(forest, hq, "b").create("")
    hq.core.switch.destroy(tills[0], first[0])
    create(tills[2], "")
    hq.core.switch.close(tills[2])
    forest.settle(1.0)
    assert dict(hq.core.switch.local_queues._owned) == {"": 3, "till/": 1}
    for each in (tills[0], tills[1]):
        hq.core.switch.close(each)
    forest.settle(1.0)
    assert dict(hq.core.switch.local_queues._owned) == {"": 2}


def test_a_session_has_so_many_subscriptions(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch, "_MOST_READERS", 2)
    greedy = Application(forest, hq, "a")
    why = greedy.keep("one", "two", "three")
    assert why == ["this session has 2 subscriptions already: end some first"]
    assert Application(forest, hq, "b").keep("one") == []


def test_the_sessions_of_an_account_have_so_many_durable_subscriptions_together(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MOST_DURABLE_OF_ONE", 3)
    first = Application(forest, hq, "till/1")
    assert first.keep("a", "b") == []
    first.close()
    hq.crash()
    hq.boot()
    second = Application(forest, hq, "till/2")
    (why,) = second.keep("a", "b")
    assert why.startswith("sessions called till/… have 3 durable subscriptions")
    assert Application(forest, hq, "york:1").keep("a") == []
    second.end("a")
    second.failed.clear()
    assert second.keep("b") == []


def test_a_node_has_so_many_durable_subscriptions_and_others_do_not_count(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MOST_DURABLE", 2)
    for name in ("a", "b"):
        application = Application(forest, hq, name)
        assert application.keep("") == []
        assert Application(forest, hq, f"{name}{name}").keep("x") == []
    (why,) = Application(forest, hq, "c").keep("x")
    assert why.startswith("this node has 2 durable subscriptions")
    assert Application(forest, hq, "a").keep("") == []
    assert Application(forest, hq, "aa").keep("x") == []


def test_a_node_that_has_very_many_queues_begins_no_more(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message in each of very many names; those that are there take more, and a drained one makes room."""
    producer = forest.producer("hq")
    producer.send("queue:one", b"1")
    forest.settle()
    monkeypatch.setattr(admission, "MOST_QUEUES", len(hq.core.custody.queues) + 2)
    for name in ("two", "three", "four", "one", "five"):
        producer.send(f"queue:{name}", b"1", expires_in=500 if name == "three" else 0)
        forest.settle()
    assert [reject.code for reject in producer.rejected] == ["QUEUE_FULL"] * 2
    assert all("queues: drain some" in reject.text for reject in producer.rejected)
    assert "queue:four" not in hq.core.custody.queues
    assert hq.core.custody.queues["queue:one"].messages == 2
    forest.settle(5.0)
    producer.send("queue:four", b"1")
    forest.settle()
    assert len(producer.rejected) == 2
    assert hq.core.custody.queues["queue:four"].messages == 1


@pytest.mark.parametrize("what", ["session", "subscription", "queue"])
def test_names_of_more_than_255_characters_are_refused(forest: Forest, hq: Site, what: str) -> None:
    long = "n" * 256
    if what == "session":
        with pytest.raises(BadRequest, match="1 to 255 characters"):
            Application(forest, hq, long)
        assert not hq.core.switch.sessions
    elif what == "subscription":
        (why,) = Application(forest, hq, "a").keep(long)
        assert "255" in why
        assert not hq.core.topics.subscriptions
    else:
        with pytest.raises(InvalidName):
            Application(forest, hq, "a").create(long * 4)


def test_a_producer_s_name_of_more_than_255_characters_is_refused(forest: Forest, hq: Site) -> None:
    producer = forest.producer("hq", "p" * 256)
    producer.send("queue:one", b"1")
    forest.settle()
    assert "queue:one" not in hq.core.custody.queues
    assert not hq.core.switch.producers.streams
