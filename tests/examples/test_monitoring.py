"""The dashboard, the alerts and the page about them name only what a real node tells Prometheus."""

import asyncio
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.cli.demo.plan import free_ports
from broker.metrics.collector import Collector
from broker.metrics.exposition import exposition
from broker.metrics.label_limit import Labels
from broker.metrics.node import COUNTERS
from broker.node import Node
from config.model import AdvisoryLog, LinkBroker, Listener, Permits, Registration, Site, TreeConnector
from sapwood import connect

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "examples" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((FOLDER / "sapwood.rules.yml").read_text("utf-8"))["groups"]
ALERTS = [rule for group in RULES for rule in group["rules"]]
SCRAPE = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
ADDED_BY_PROMETHEUS = {"instance", "job", "le"}
_METRIC = re.compile(r"\b((?:sapwood|process)_[a-z0-9_]+)(?:\{([^}]*)\})?")
_LABELS = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')

Known = dict[str, dict[str, set[str]]]


def queries() -> Iterator[tuple[str, str]]:
    """Every PromQL expression: (where it stands, expression)."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for rule in ALERTS:
        yield f"alert {rule['alert']}", rule["expr"]


QUERIES = list(queries())


def texts_of(node: Node) -> str:
    return exposition(
        Collector(node.report, Labels(), lambda token: token[:2]).families(), open_metrics=False
    ).decode()


def families_of(node: Node) -> list[Metric]:
    return list(text_string_to_metric_families(texts_of(node)))


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    """What two real nodes tell after some messages: a leaf; a root with a link broker, registered in DNS."""
    return asyncio.run(_observed(tmp_path_factory.mktemp("nodes")))


async def _observed(folder: Path) -> list[Metric]:
    log = AdvisoryLog(enabled=False)
    (folder / "key").write_text("c2VjcmV0")
    registration = Registration(
        domain="example.test", server="127.0.0.1:9", key_name="hq", key_file=folder / "key"
    )
    broker = LinkBroker(uri=f"mqtt://127.0.0.1:{free_ports(1)[0]}")
    listener = Listener(port=0, public_uri="ws://localhost", link_brokers=(broker,))
    hq = Node(
        Site(
            name="hq",
            data=folder / "hq",
            listener=listener,
            registration=registration,
            permits=Permits(default="open"),
            advisory_log=log,
        )
    )
    await hq.start()
    way = TreeConnector(
        uri=f"ws://127.0.0.1:{hq.port}/link",
        uris=("srv://example.test",),
        name_servers=("127.0.0.1:9",),
        nodetype="leaf",
    )
    store = Node(
        Site(
            name="store",
            data=folder / "store",
            listener=Listener(port=0),
            advisory_log=log,
            tree_connectors=(way,),
        )
    )
    await store.start()
    async with asyncio.timeout(60), connect(f"http://127.0.0.1:{store.port}") as client:
        await client.create("sales")
        await client.send_many("queue:sales", [b"x"] * 10)
        delivery = await anext(client.subscribe("queue:sales"))
        delivery.ack()
        while not (store.core.counters["acknowledged"] and store.core.parent and store.core.parent.up):
            await asyncio.sleep(0.01)
        found = [*families_of(hq), *families_of(store)]
    await store.stop()
    await hq.stop()
    return found


@pytest.fixture(scope="module")
def known(families: list[Metric]) -> Known:
    """The names of all samples, their labels, and the values of those."""
    found: Known = {}
    for family in families:
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


@pytest.mark.parametrize(("where", "expression"), QUERIES, ids=[where for where, _ in QUERIES])
def test_every_query_names_what_exists(known: Known, where: str, expression: str) -> None:
    metrics = _METRIC.findall(expression)
    assert metrics or "up{" in expression, f"{where} asks for nothing"
    labels = set(ADDED_BY_PROMETHEUS)
    for name, selector in metrics:
        assert name in known, f"{where}: no node tells {name}"
        labels |= set(known[name])
        for label, how, value in _SELECTOR.findall(selector):
            assert label in {*known[name], *ADDED_BY_PROMETHEUS}, f"{where}: {name} has no label {label}"
            if how == "=":
                assert value in known[name][label], f"{where}: {name} is never {label}={value!r}"
    for group in _LABELS.findall(expression):
        for label in filter(None, map(str.strip, group.split(","))):
            assert label in labels, f"{where}: nothing there has a label {label}"


@pytest.mark.parametrize(
    "rule", [rule for group in RULES for rule in group["rules"]], ids=lambda r: r["alert"]
)
def test_every_alert_says_what_it_means(known: Known, rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    labels = {label for name, _ in _METRIC.findall(rule["expr"]) for label in known[name]}
    for text in rule["annotations"].values():
        for label in re.findall(r"\$labels\.(\w+)", text):
            assert label in labels | ADDED_BY_PROMETHEUS
            by = _LABELS.findall(rule["expr"]) if "sum by" in rule["expr"] else []
            assert not by or label in by[0], "a sum has only the labels that it is by"


def test_alerts_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(set(names)) == len(names) >= 10


def test_the_dashboard_is_what_its_list_says() -> None:
    spec = importlib.util.spec_from_file_location("dashboard", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == (FOLDER / "grafana-dashboard.json").read_text("utf-8")


def test_panels_neither_overlap_nor_leave_the_page() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_variables_that_queries_use_are_there() -> None:
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__all", "__rate_interval"}
    assert used <= names
    assert {"datasource", "instance"} == names


def test_the_scrape_configuration_asks_for_what_there_is() -> None:
    assert SCRAPE["rule_files"] == ["sapwood.rules.yml"]
    remote, local = SCRAPE["scrape_configs"]
    assert remote["authorization"]["type"] == "Bearer"
    assert remote["scheme"] == "https"
    assert all(job["job_name"].startswith("sapwood") for job in (remote, local))
    assert all(job.get("metrics_path", "/metrics") == "/metrics" for job in (remote, local))


def test_the_page_names_every_metric_and_no_other(families: list[Metric]) -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `((?:sapwood|process)_[a-z0-9_]+)`", text, re.MULTILINE))
    told = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert listed == told


def test_a_counter_that_appears_when_it_first_happens_has_a_name_and_a_text() -> None:
    sources = (path.read_text("utf-8") for path in (ROOT / "broker" / "core").rglob("*.py"))
    late = {name for text in sources for name in re.findall(r'counters\["(\w+)"\] = .*counters\.get', text)}
    assert late >= {"moved", "wills_refused", "dead_deleted"}
    assert late <= set(COUNTERS)


def test_the_page_names_every_logger_of_a_node() -> None:
    (row,) = re.findall(
        r"^\| `level`, `logger`.*$", (ROOT / "docs" / "monitoring.md").read_text("utf-8"), re.MULTILINE
    )
    folders = ("broker", "bridges", "config", "treeconnector")
    sources = (path.read_text("utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    made = {name for text in sources for name in re.findall(r"getLogger\(\"sapwood\.(\w+)\"", text)}
    assert set(re.findall(r"`(?:sapwood)?\.(\w+)`", row)) == made


def test_the_page_has_every_label(families: list[Metric]) -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `((?:sapwood|process)_[a-z0-9_]+)` \| ([^|]*) \|", text, re.MULTILINE))
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(re.findall(r"`(\w+)`", rows[name])), name
