"""Topics, queues and keys: each child's own, whatever it is called."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.carriers.brokered.names import Queues, Topics

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,20}", fullmatch=True) | st.sampled_from(
    ["up", "knock", "parents", "a.up", "a.up.knock", "up.knock", "a.down", "a"]
)
NAMES = NAMES.filter(lambda name: name != "local")


@given(NAMES, NAMES)
def test_what_is_one_childs_is_never_anothers(one: str, other: str) -> None:
    if one == other:
        return
    topics, queues = Topics("acme"), Queues("acme")
    for name in (topics.up, topics.down, topics.knock, queues.up, queues.knock):
        assert name(one) != name(other)
    assert queues.up(one) != queues.knock(other)
    half = "0123456789abcdef"
    assert queues.down_queue(one, half) != queues.down_queue(other, half)


@given(NAMES)
def test_a_topic_and_a_key_tell_whose_they_are(name: str) -> None:
    topics, queues = Topics("acme"), Queues("acme")
    assert topics.child_of(topics.knock(name)) == topics.child_of(topics.up(name)) == name
    assert queues.child_of(queues.knock(name)) == name
    assert fnmatchcase(f".{queues.knock(name)}", queues.knocks.replace("#", "*"))


@pytest.mark.parametrize("name", ["", "local", "a b", "-a", "ü", "x" * 65])
def test_a_name_that_no_node_has_is_none(name: str) -> None:
    assert Topics("acme").child_of("sapwood/acme/link/parents") == ""
    assert Topics("acme").child_of(f"sapwood/acme/link/{name}/up/knock") == ""
    assert Queues.child_of(f"{name}.up.knock") == ""
