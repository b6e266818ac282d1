"""All alarms of a node over a restart, and over a change of its file meanwhile."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.alarms import webhook
from broker.alarms.watch import AlarmWatch
from broker.alarms.webhook import Receiver
from config.alarms import AlarmRule

NOWHERE = Receiver(uri="http://127.0.0.1:1/", host="http://127.0.0.1:1", token="", key="", tls=None)
DEAD = AlarmRule(name="letters", metric="dead", above=10.0, lasting=0.0, severity="critical")
BACKLOG = AlarmRule(name="backlog", metric="waiting", above=10.0, lasting=0.0)
HIGHER = AlarmRule(name="backlog", metric="waiting", above=99.0, lasting=0.0)


def watching(folder: Path, *rules: AlarmRule) -> AlarmWatch:
    core: Any = SimpleNamespace(identity=SimpleNamespace(tree="acme", name="york"))
    return AlarmWatch(core, rules, folder, NOWHERE, "warning")


def told(watch: AlarmWatch) -> list[tuple[str, str, str, str]]:
    assert watch.webhook is not None
    words = ("alarm", "state", "severity", "condition")
    return [tuple(event[word] for word in words) for event in watch.webhook.waiting]  # type: ignore[misc]


async def begun(watch: AlarmWatch) -> None:
    """Run it, but for telling anybody."""
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await watch.close()


async def test_an_alarm_whose_rule_goes_or_changes_while_the_node_is_away_ends_and_is_told(
    tmp_path: Path,
) -> None:
    """Else a receiver would have it open for ever."""
    first = watching(tmp_path, DEAD, BACKLOG)
    first.look({"dead": 11.0, "waiting": 11.0})
    await first.close()
    again = watching(tmp_path, DEAD, HIGHER)
    since = first.since("backlog")
    assert [state.rule.name for state in again.raised] == ["letters"]
    await begun(again)
    raised = [
        ("letters", "raised", "critical", "dead above 10"),
        ("backlog", "raised", "warning", "waiting above 10"),
    ]
    assert told(again) == [*raised, ("backlog", "ended", "warning", "waiting above 10")]
    assert (since is not None, again.since("backlog")) == (True, None)
    assert again.since("letters") == first.since("letters")
    third = watching(tmp_path, DEAD, HIGHER)
    await begun(third)
    assert told(third) == told(again), "it is told once"


async def test_a_file_of_an_older_version_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "alarms.json").write_text(
        '{"format":1,"raised":[{"name":"backlog","rule":"waiting above 10","since":5.0}],"waiting":[]}'
    )
    watch = watching(tmp_path, HIGHER)
    await begun(watch)
    assert (told(watch), watch.since("backlog")) == ([], None)
    kept = watching(tmp_path, BACKLOG)
    assert (kept.raised[0].rule, kept.since("backlog")) == (BACKLOG, 5.0)


async def test_an_alarm_that_a_version_before_worded_otherwise_goes_on(tmp_path: Path) -> None:
    full = AlarmRule(name="disk-low", metric="disk_free", below=2.0**30, lasting=0.0)
    first = watching(tmp_path, full)
    first.look({"disk_free": 5.0})
    await first.close()
    file = tmp_path / "alarms.json"
    file.write_text(file.read_text().replace("below 1GiB", "below 1.07374e+09"))
    assert [state.rule for state in watching(tmp_path, full).raised] == [full]


async def test_tests_of_the_webhook_push_out_no_alarm_that_waits(tmp_path: Path) -> None:
    """An operator may ask for tests, and hides no alarm from the receiver by them."""
    watch = watching(tmp_path, DEAD)
    watch.look({"dead": 11.0})
    ids = {watch.test() for _ in range(webhook.MOST + 1)}
    await watch.close()
    assert watch.webhook is not None
    assert [each["state"] for each in watch.webhook.waiting] == ["raised", "test"]
    assert ids == {watch.webhook.waiting[1]["id"]}
