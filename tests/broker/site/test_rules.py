"""Names between a site's broker and the tree: as a `topic` line of mosquitto.conf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.site.rules import Rules
from config.model import SiteRule
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Destination, parse
from treeconnector.edge import Taken
from treeconnector.patterns import intersection, matches

TILLS = SiteRule(pattern="topic:till/#", tree_prefix="stores/0042/")
OWN = SiteRule(pattern="topic:#", direction="in", local_prefix="own/", tree_prefix="stores/0042/own/")
OUT = SiteRule(pattern="queue:sales", direction="out", tree_prefix="york-")


def texts(found: list[Destination]) -> list[str]:
    return [str(each) for each in found]


def test_without_rules_everything_passes_as_it_is() -> None:
    rules = Rules(())
    key = parse("topic:a/#/b")
    assert (rules.consumed(key), rules.wanted(key)) == ([key], [key])
    assert rules.to_tree(parse("queue:q")) == rules.to_local(parse("queue:q")) == parse("queue:q")


@pytest.mark.parametrize(
    ("local", "tree"),
    [
        ("topic:till/1", ["topic:stores/0042/till/1"]),
        ("topic:till/+/state", ["topic:stores/0042/till/+/state"]),
        ("topic:#", ["topic:stores/0042/till/#", "topic:stores/0042/own/#"]),
        ("topic:+/x", ["topic:stores/0042/till/x", "topic:stores/0042/own/x"]),
        ("topic:own/a/#", ["topic:stores/0042/own/a/#"]),
        ("topic:elsewhere", []),
        ("topic:$SYS/#", []),
        ("queue:sales", []),
    ],
)
def test_a_consumer_wants_what_its_filter_and_a_rule_have_in_common(local: str, tree: list[str]) -> None:
    assert texts(Rules((TILLS, OWN, OUT)).consumed(parse(local))) == tree


def test_what_is_wanted_in_the_tree_is_taken_under_its_local_name() -> None:
    rules = Rules((TILLS, OWN, OUT))
    assert texts(rules.wanted(parse("topic:stores/+/till/1"))) == ["topic:till/1"]
    assert rules.wanted(parse("topic:till/1")) == []
    assert texts(rules.wanted(parse("queue:york-sales"))) == ["queue:sales"]
    assert rules.wanted(parse("queue:sales")) == []


def test_messages_are_renamed_and_what_no_rule_lets_pass_stays() -> None:
    rules = Rules((TILLS, OWN, OUT))
    assert rules.to_tree(parse("topic:till/1")) == parse("topic:stores/0042/till/1")
    assert rules.to_local(parse("topic:stores/0042/own/x")) == parse("topic:own/x")
    assert rules.to_tree(parse("topic:own/x")) is None
    assert rules.to_local(parse("topic:stores/0043/till/1")) is None
    assert rules.to_tree(parse("queue:sales")) == parse("queue:york-sales")
    assert rules.to_local(parse("queue:york-sales")) is None
    assert rules.to_tree(parse("queue:any@hq")) == parse("queue:any@hq")


def test_the_topic_of_an_answer_is_named_as_the_answer_goes() -> None:
    """The answer comes in where the request went out, and the other way round."""
    rules = Rules((SiteRule(pattern="topic:answers/#", direction="in", tree_prefix="york/"), OUT))
    asked = [Message(b"", Properties(reply_to=text)) for text in ("topic:answers/1", "topic:else")]
    out, dead = rules.named_in_tree([Taken(parse("queue:sales"), each) for each in asked])
    assert (out.message.properties.reply_to, out.odd) == ("topic:york/answers/1", "")
    assert dead.odd.startswith("UNANSWERABLE: 'topic:else'")


_LEVEL = st.sampled_from(["a", "b", "+", "$c"])
_PATTERN = st.builds(
    lambda levels, many: "/".join([*levels, *(["#"] if many else [])]),
    st.lists(_LEVEL, min_size=1, max_size=4),
    st.booleans(),
)
_TOPIC = st.lists(st.sampled_from(["a", "b", "$c"]), min_size=1, max_size=5).map("/".join)


@given(_PATTERN, _PATTERN, _TOPIC)
def test_an_intersection_matches_what_both_match(one: str, other: str, topic: str) -> None:
    both = intersection(one, other)
    assert (both is not None and matches(both, topic)) == (matches(one, topic) and matches(other, topic))
