"""Alarms that cannot be are refused where they stand; what can be is read alike from YAML and XML."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from config.alarm_rules import alarms, why_not_told
from config.alarms import (
    BUILTIN,
    METRICS,
    SEVERITIES,
    THRESHOLD,
    AlarmRule,
    Alarms,
    Metric,
    Severity,
    WebhookTarget,
    rules_of,
)
from config.behaviour import History
from config.errors import ConfigurationError
from config.fields import XML, YAML
from config.load import load
from config.model import Site
from config.rules import check

RULE = AlarmRule(name="backlog", metric="waiting", above=100.0)
AS_YAML = """
broker:
  name: hq
  alarms:
    builtin: false
    rules:
      - {name: backlog, metric: waiting, above: 5000, lasting: 10m, severity: critical, queue: sales}
      - {name: disk, metric: disk_free, below: 5GiB}
      - {name: old, metric: oldest, above: 2h}
    webhook: {uri: "https://alerts.example.com/sapwood", key_file: key, least: critical}
"""
AS_XML = """<broker name="hq">
  <alarms builtin="false">
    <rules>
      <rule name="backlog" metric="waiting" above="5000" lasting="10m" severity="critical" queue="sales"/>
      <rule name="disk" metric="disk_free" below="5GiB"/>
      <rule name="old" metric="oldest" above="2h"/>
    </rules>
    <webhook uri="https://alerts.example.com/sapwood" keyFile="key" least="critical"/>
  </alarms>
</broker>
"""


def found(*rules: AlarmRule, **more: Any) -> list[tuple[object, str]]:
    site = Site(name="hq", alarms=Alarms(rules=rules), **more)
    return [(each.path[2:], each.message) for each in alarms(site, YAML)]


@pytest.mark.parametrize(("name", "text"), [("hq.yaml", AS_YAML), ("hq.xml", AS_XML)])
def test_a_file_says_what_raises_an_alarm_and_who_is_told(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "key").write_text("secret")
    site = load(tmp_path / name)
    backlog, disk, old = rules_of(site.alarms)
    assert (backlog.above, backlog.lasting, backlog.queue) == (5000, 600, "sales")
    assert (backlog.severity, disk.severity) == ("critical", "warning")
    assert (disk.below, disk.above, disk.lasting) == (5 * 2**30, None, 60)
    assert old.above == 7200
    assert site.alarms.webhook.key_file == tmp_path / "key"
    assert site.alarms.webhook.least == "critical"


def test_a_rule_takes_the_place_of_the_built_in_one_of_its_name() -> None:
    own = AlarmRule(name="disk-low", metric="disk_free", below=1.0)
    rules = rules_of(Alarms(rules=(RULE, own)))
    assert [rule.name for rule in rules] == [
        *(rule.name for rule in BUILTIN if rule.name != "disk-low"),
        *("backlog", "disk-low"),
    ]
    assert own in rules
    assert rules_of(Alarms(builtin=False)) == ()
    check(Site(name="hq", alarms=Alarms(rules=BUILTIN)))


def test_an_alarm_has_one_threshold() -> None:
    for above, below, place in ((None, None, "name"), (1.0, 2.0, "below")):
        ((path, message),) = found(replace(RULE, above=above, below=below))
        assert path == (0, place)
        assert message == "alarm 'backlog': expected either 'above' or 'below'"


def test_a_queue_has_two_figures() -> None:
    assert not found(replace(RULE, queue="sales"))
    ((path, message),) = found(replace(RULE, metric="cpu", queue="sales"))
    assert path == (0, "queue")
    assert "cpu is of the whole node" in message


def test_a_name_stands_once_and_samples_are_needed() -> None:
    assert found(RULE, RULE) == [((1, "name"), "alarm 'backlog' is listed twice")]
    site = Site(name="hq", alarms=Alarms(rules=(RULE,)), history=History(enabled=False))
    ((path, message),) = ((each.path, each.message) for each in alarms(site, XML))
    assert path == ("history", "enabled")
    assert "takes none" in message


def webhook(**settings: Any) -> list[tuple[object, str]]:
    site = Site(name="hq", alarms=Alarms(webhook=WebhookTarget(**settings)))
    return [(each.path[2:], each.message) for each in alarms(site, YAML)]


def test_a_webhook_has_one_address_and_nobody_else_can_read_along() -> None:
    assert not webhook(uri="https://alerts.example.com/x")
    assert not webhook(uri="http://127.0.0.1:9000/x")
    ((path, message),) = webhook(uri="http://alerts.example.com/x")
    assert path == ("uri",)
    assert "must be https" in message
    ((path, message),) = webhook(uri="https://x.example.com", uri_file=Path("uri"))
    assert (path, message) == (("uri_file",), "'uri' and 'uri_file' exclude each other: keep one")
    ((path, message),) = webhook(token_file=Path("token"))
    assert path == ("token_file",)
    assert "needs an address" in message
    both = WebhookTarget(uri="https://x.example.com", key_env="K", key_file=Path("k"))
    with pytest.raises(ConfigurationError, match="exclude each other"):
        check(Site(name="hq", alarms=Alarms(webhook=both)))


@pytest.mark.parametrize("uri", ["https://", "https://[", "https://x:port/", "//x", "", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    assert why_not_told(uri)


def test_words_and_types_agree() -> None:
    assert get_args(Metric) == METRICS
    assert get_args(Severity) == SEVERITIES


@pytest.mark.parametrize(
    ("text", "value"), [("10m", 600), ("5GiB", 5 * 2**30), ("0.5", 0.5), ("1000", 1000), ("10MB", 10**7)]
)
def test_a_threshold_is_a_number_a_time_or_a_size(text: str, value: float) -> None:
    assert THRESHOLD.parse(text) == value
    assert THRESHOLD.parse(THRESHOLD.text(value)) == value
