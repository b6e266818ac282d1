"""`sapwood chart` draws in characters what a node tells."""

from typing import Any

import pytest

from broker.cli.errors import CommandError
from broker.cli.views import history

Sapwood = Any


def found(*values: float | None, unit: str = "", name: str = "waiting") -> dict[str, Any]:
    at = [1_800_000_000.0 + 600 * place for place in range(len(values))]
    series = {"name": name, "title": "Messages that wait", "unit": unit, "values": list(values)}
    return {"node": "york", "since_s": 1_800_000_000.0, "until_s": at[-1] + 600, "at": at, "series": [series]}


def test_a_node_that_has_just_started_says_that_there_is_nothing_yet(sapwood: Sapwood) -> None:
    assert "no samples of that time yet" in sapwood("chart")


def test_all_series_of_a_running_node_are_drawn_and_one_large(running: Any, sapwood: Sapwood) -> None:
    running.do(lambda client: client.send("queue:sales@hq", b"1"))
    for _ in range(2):
        running.do(lambda _client: running.node.running.sampler.sample())
    lines = sapwood("chart").splitlines()
    (waiting,) = (line.split() for line in lines if line.split()[:1] == ["waiting"])
    assert waiting[-1] == "1", (
        "the highest; a sample of the node's own may have begun before the message came"
    )
    large = sapwood("chart", "waiting", "--hours", "6")
    assert large.startswith("hq: Messages that wait\n")
    assert "█" in large
    told = sapwood("chart", "waiting,cpu", "--json")
    assert [each["name"] for each in told["series"]] == ["waiting", "cpu"]
    with pytest.raises(CommandError, match="no series 'wating': expected some of entered, "):
        sapwood("chart", "wating")


def test_the_worst_of_each_part_is_drawn_and_times_without_a_sample_are_empty() -> None:
    told = found(1.0, 8.0, 2.0, None, 4.0, 0.0)
    assert history.columns(told, told["series"][0], 3) == [8.0, 2.0, 4.0]
    assert history.columns(told, told["series"][0], 6) == [1.0, 8.0, 2.0, None, 4.0, 0.0]
    free = found(5.0, 3.0, name="disk_free")
    assert history.columns(free, free["series"][0], 1) == [3.0]


def test_a_large_chart_has_its_highest_figure_at_the_top(capsys: pytest.CaptureFixture[str]) -> None:
    history.chart(found(1024.0, 2048.0, unit="bytes"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("│") == ["     2.0 KiB ", " " * 30 + "█" + " " * 29]
    assert lines[5].count("█") == 2
    assert lines[8].startswith("           0 │")
    assert lines[10].split() == ["15", "Jan", "08:00", "UTC", "now"], "as all else on the command line"


def test_figures_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """123,456 messages were 1.235e+05, and a latency of two seconds 2.08e+03 ms."""
    for value, unit, text in (
        (123456.0, "", "123,456"),
        (7.0, "", "7"),
        (0.19994, "/s", "0.2/s"),
        (54321.7, "/s", "54,322/s"),
        (2.079, "s", "2.08 s"),
        (0.1412, "s", "141 ms"),
        (0.0, "s", "0s"),
        (75.0, "s", "1m 15s"),
    ):
        history.chart(found(value, unit=unit), {})
        assert capsys.readouterr().out.splitlines()[1].split("│")[0].strip() == text
