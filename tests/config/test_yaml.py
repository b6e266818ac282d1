import pytest

from config.errors import ConfigurationError
from config.model import Child, Delivery, Site, SiteBroker, TreeConnector
from config.yaml import read

EXAMPLE = """broker:
  name: store-0042
  tree: acme
  site_broker: {uri: "mqtt://localhost:1883"}
  tree_connectors: [{nodetype: leaf, uri: "wss://uk.acme.example:7600/link"}]
"""

MANY = "broker:\n" + "\n".join(f" a{number}: 1" for number in range(60_000))


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text, "f")
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_examples_are_read() -> None:
    assert read("broker: {name: hq}") == Site(name="hq")
    assert read(EXAMPLE) == Site(
        name="store-0042",
        tree="acme",
        site_broker=SiteBroker(uri="mqtt://localhost:1883"),
        tree_connectors=(TreeConnector(nodetype="leaf", uri="wss://uk.acme.example:7600/link"),),
    )


def test_values_may_be_written_as_people_do() -> None:
    text = "\ufeff--- # comment\nbroker:\n  name: no\n  delivery: {hold_time: 90, dedup_window: 0.5}\n"
    text += "  listener:\n  children:\n  - name: 'on'\n    max_routes: 7\n...\n"
    delivery = Delivery(hold_time=90.0, dedup_window=0.5)
    assert read(text) == Site(name="no", delivery=delivery, children=(Child(name="on", max_routes=7),))


def test_every_mistake_is_listed_with_its_exact_place() -> None:
    text = """broker:
  name: 0042
  site_brokr: {uri: "mqtt://localhost:1883"}
  tree_connectors: [{nodetype: root, uri: "tcp://hq:7600/link", secret: hunter2}]
  listener: {port: "7600", host: a b, allow_anonymous: yes}
  link: {keep_alive: 1x, backoff_initial: 2m}
  children:
    - {nam: é, max_routes: [1]}
    - store
  log: {level: , format: {}}
"""
    found = problems(text)
    assert [problem.split(": ")[0] for problem in found] == [
        "f:2:9",
        "f:3:3",
        "f:4:32",
        "f:4:43",
        "f:4:65",
        "f:5:20",
        "f:5:34",
        "f:5:56",
        "f:6:22",
        "f:6:26",
        "f:8:7",
        "f:8:8",
        "f:8:28",
        "f:9:7",
        "f:9:7",
        "f:10:15",
        "f:10:26",
    ]
    assert found[0].endswith("found the number '0042'; write it in quotes")
    assert found[1].endswith("did you mean 'site_broker'?")
    assert "'hunter2'" not in str(found)
    assert found[5].endswith("found the text '7600'; write it without quotes")
    assert found[7].endswith("listener.allow_anonymous: expected true or false, found the text 'yes'")
    assert found[12].endswith("found a list")
    assert "children[1]: expected a section with keys, found the text 'store'" in found[13] + found[14]
    assert found[15].endswith("found nothing")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "f:1:1", "the file is empty"),
        ("# nothing", "f:1:1", "the file is empty"),
        ("a: [", "f:1:5", "this is not YAML"),
        ("a:\n\t- b", "f:2:1", "this is not YAML"),
        ("broker: {name: a}\n---\nb: 1", "f:2:1", "a second document begins here"),
        ("broker: &a {name: b}", "f:1:9", "anchors and aliases"),
        ("broker: {name: *a}", "f:1:16", "anchors and aliases"),
        ("broker: !!python/object:os.system {}", "f:1:9", "tags (!) are not allowed"),
        ("broker: {name: !secret a}", "f:1:16", "tags (!) are not allowed"),
        ("[" * 30, "f:1:14", "deeper than 12"),
        (MANY, "f:1002:2", "a section has more than 1000 keys"),
        ("broker: {[a]: b}", "f:1:10", "a key is a word here"),
        ("- broker", "f:1:1", "expected the key 'broker'"),
        ("broker: text", "f:1:9", "'broker': expected a section"),
        ('broker: {name: "\\UFFFFFFFF"}', "f", "this is not YAML"),
        ("broker: {name: \x07}", "f:1:16", "not allowed in YAML"),
    ],
)
def test_what_is_no_such_file_is_refused_with_its_place(text: str, place: str, message: str) -> None:
    assert [found for found in problems(text) if found.startswith(f"{place}: ") and message in found]


def test_a_key_twice_is_refused_and_still_checked() -> None:
    found = problems("broker:\n  name: a\n  log: {}\n  name: b c\n  log: {level: loud}")
    assert found[0] == "f:4:3: 'name' stands here again, first in line 2"
    assert "name: expected 1 to 64" in found[1]
    assert found[2] == "f:5:3: 'log' stands here again, first in line 3"
    assert "found 'loud'" in found[3]
    assert problems("broker: {name: a}\nbroker: {name: b}") == ["f:2:1: 'broker' stands here a second time"]


def test_settings_outside_of_broker_are_told_to_be_indented() -> None:
    assert problems("broker:\nname: a") == [
        "f:2:1: 'name' belongs below 'broker': indent it",
    ]
    assert problems("brokr: {name: a}")[1].endswith("the only key of the file; did you mean 'broker'?")


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    assert problems(bomb) == ["f:1:4: anchors and aliases (&, *) are not allowed: write the value out"]
