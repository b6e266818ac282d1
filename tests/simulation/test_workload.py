"""A workload's file: read with defaults, refused with line and column."""

from pathlib import Path

import pytest

from config.errors import ConfigurationError
from simulation.deployment import generated
from simulation.workload import Consumers, Hours, Workload, parse_workload, read_workload, seconds

WHOLE = """\
workload:
  tree: acme
  start: 2026-03-01T12:00:00Z
  hours: {opens: "09:00", closes: "18:30", spread: 10m}
  consumers:
    - {role: leaf, destination: "queue:{node}-{number}", count: 25}
    - {role: root, destination: "topic:sales/#", always: true, reads: true}
  churn: {every: 4h, away: 20s}
  lines: [{role: leaf, latency: 40ms, bandwidth: 1MB, loss: 0.01}]
  flapping: [{role: leaf, share: 0.01, every: 10m, down: 30s}]
  restarts: [{role: branch, every: 7d, down: 2m}]
  outages: [{node: region-01, after: 12h, down: 15m}]
  messages: [{role: leaf, destination: "topic:sales/{node}", every: 1m, size: 1KiB, expires: 1h}]
  advisories: {linger: 5s, advise_down: topics}
  link: {keep_alive: 20s}
"""


def test_everything_can_be_said() -> None:
    made = parse_workload(WHOLE)
    assert made.hours == Hours(opens="09:00", closes="18:30", spread=600.0)
    assert made.consumers[0] == Consumers(role="leaf", destination="queue:{node}-{number}", count=25)
    assert made.consumers[1].reads
    assert made.churn.every == 14_400
    assert made.lines[0].bandwidth == 1_000_000
    assert made.outages[0].node == "region-01"
    assert made.messages[0].expires == 3600
    assert (made.advisories.linger, made.advisories.advise_down, made.link.keep_alive) == (5, "topics", 20)
    assert made.start_microseconds == 1_772_366_400_000_000


def test_nothing_need_be_said() -> None:
    assert parse_workload("workload:\n") == Workload()
    assert Workload().start_microseconds == 1_767_225_600_000_000


@pytest.mark.parametrize(("clock", "expected"), [("00:00", 0), ("08:30", 30_600), ("24:00", 86_400)])
def test_times_of_day(clock: str, expected: float) -> None:
    assert seconds(clock) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f:1:1: the file is empty: expected the key 'workload'"),
        ("consumers: []\n", "f:1:1: 'consumers' belongs below 'workload': indent it"),
        ("workload: {consumer: []}\n", "f:1:12: 'consumer' is not a setting here; did you mean 'consumers'?"),
        ("workload:\n  churn: {every: soon}\n", "f:2:18: churn.every: expected a duration"),
        (
            "workload:\n  consumers:\n    - {count: 2}\n",
            "f:3:7: 'role' is missing: expected leaf, branch or root",
        ),
        ("workload: {hours: {opens: '25:00'}}\n", "f:1:27: hours.opens: expected a time of day"),
        (
            "workload: {hours: {opens: '20:00', closes: '08:00'}}\n",
            "f:1:20: the shops open at 20:00",
        ),
        (
            "workload: {start: 2026-02-30T00:00:00Z}\n",
            "f:1:12: '2026-02-30T00:00:00Z' is no moment that there is",
        ),
        ("workload: {start: 9981-01-01T00:00:00Z}\n", "expected a year from 1970 to 9980"),
        ("workload: {start: 1969-12-31T00:00:00Z}\n", "expected a year from 1970 to 9980"),
        (
            "workload: {consumers: [{role: leaf, destination: 'queue:a', count: 2}]}\n",
            "f:1:37: 2 consumers of one destination are one: write {number} into it",
        ),
        (
            "workload: {consumers: [{role: leaf, destination: 'queue:{shop}'}]}\n",
            "f:1:37: 'queue:{shop}': expected no braces but {node} and {number}",
        ),
        (
            "workload: {consumers: [{role: leaf, destination: 'topic:a/#/b+'}]}\n",
            "f:1:37: 'topic:a/#/b+' is no destination",
        ),
        (
            "workload: {messages: [{role: leaf, destination: 'topic:a/#'}]}\n",
            "f:1:36: 'topic:a/#' is a pattern: expected a name to send to",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_workload(text, "f")
    assert said in str(raised.value)


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_workload("workload:\n  churn: {every: 1}\n  tree: a b\n  hours: {spread: -1}\n", "f")
    assert [problem.line for problem in raised.value.problems] == [3, 4]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("region-9", "; did you mean 'region-2' or 'region-1'?"),
        ("york", ": expected one of its nodes, such as hq, region-1, region-2"),
    ],
)
def test_a_node_that_is_not_in_the_deployment_is_told_with_those_that_are(node: str, said: str) -> None:
    text = f"workload:\n  outages:\n    - {{node: hq}}\n    - {{node: {node}, after: 1h}}\n"
    names = {place.name: place.role for place in generated(4, regions=2).places}
    with pytest.raises(ConfigurationError) as raised:
        parse_workload(text, "f", names)
    where = f"f:4:8: outages[1].node: there is no node {node!r} in the deployment"
    assert str(raised.value) == where + said
    assert len(parse_workload(text, "f").outages) == 2


def test_messages_to_leaves_of_a_deployment_that_has_none_are_refused() -> None:
    text = 'workload:\n  messages: [{role: root, destination: "queue:{leaf}/1"}]\n'
    with pytest.raises(ConfigurationError, match=r"f:2:27: 'queue:\{leaf\}/1': the deployment has no leaf"):
        parse_workload(text, "f", {"hq": "root", "north": "branch"})
    assert parse_workload(text, "f", {"hq": "root", "york": "leaf"}).messages


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the workload: No such file"):
        read_workload(tmp_path / "none.yaml")
