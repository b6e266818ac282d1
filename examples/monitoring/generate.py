"""Writes grafana-dashboard.json. Same list, same file: change the list, run it, import the file.

python examples/monitoring/generate.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
HERE_ONLY = 'instance=~"$instance"'
WIDTH = 24


class Panel(NamedTuple):
    """One picture. `targets`: (PromQL, legend).

    In PromQL `{here}` stands for the chosen nodes, `{rate}` for them over the interval of a rate.
    """

    title: str
    targets: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"
    text: str = ""
    stacked: bool = False
    red_at: float | None = None


def stat(title: str, expression: str, unit: str = "short", **more: Any) -> Panel:
    return Panel(title, ((expression, ""),), unit, 4, "stat", **more)


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "The chain",
        (
            stat("Nodes", "count(sapwood_node_info{here})"),
            stat("Unreachable", 'count(up{job=~"sapwood.*", here} == 0) or vector(0)', red_at=1),
            stat("Take no messages", "count(sapwood_ready{here} == 0) or vector(0)", red_at=1),
            stat("Links down", 'sum(sapwood_links{state="down", here})', red_at=1),
            stat("Links blocked", 'sum(sapwood_links{state="blocked", here})', red_at=1),
            stat("Dead letters kept", "sum(sapwood_dead_letter_messages{here})", red_at=1),
            Panel(
                "Messages of applications",
                (
                    ("sum(rate(sapwood_messages_entered_total{rate}))", "entered"),
                    ("sum(rate(sapwood_messages_delivered_total{rate}))", "delivered"),
                    (
                        "sum(rate(sapwood_messages_acknowledged_total{rate}))",
                        "acknowledged",
                    ),
                    ("-sum(rate(sapwood_messages_refused_total{rate}))", "refused"),
                ),
                "cps",
                12,
            ),
            Panel(
                "Messages over links",
                (
                    (
                        "sum by (instance) (rate(sapwood_messages_received_total{rate}))",
                        "{{instance}} in",
                    ),
                    (
                        "-sum by (instance) (rate(sapwood_messages_sent_total{rate}))",
                        "{{instance}} out",
                    ),
                ),
                "cps",
                12,
            ),
        ),
    ),
    (
        "Links",
        (
            Panel(
                "Links by state",
                (("sum by (state) (sapwood_links{here})", "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Waiting for a neighbour",
                (("topk(10, sapwood_link_waiting_messages{here})", "{{instance}} > {{link}}"),),
            ),
            Panel(
                "Oldest that is not confirmed",
                (("topk(10, sapwood_link_oldest_age_seconds{here})", "{{instance}} > {{link}}"),),
                "s",
            ),
            Panel(
                "Bytes over links",
                (
                    (
                        "topk(10, rate(sapwood_link_received_bytes_total{rate}))",
                        "{{instance}} < {{link}}",
                    ),
                    (
                        "-topk(10, rate(sapwood_link_sent_bytes_total{rate}))",
                        "{{instance}} > {{link}}",
                    ),
                ),
                "Bps",
            ),
            Panel(
                "Silence",
                (("topk(10, sapwood_link_silence_seconds{here})", "{{instance}} > {{link}}"),),
                "s",
                text="Time since the neighbour was heard of. Running links are heard of every ten seconds.",
            ),
            Panel(
                "Outbox",
                (("topk(10, sapwood_link_outbox_bundles{here})", "{{instance}} > {{link}}"),),
                text="Bundles sent and not confirmed. At its limit the line or the neighbour is slow.",
            ),
            Panel(
                "Links that do not run",
                (('sapwood_link_state{state!="running", here} > 0', ""),),
                kind="table",
                width=WIDTH,
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel("Depth", (("topk(10, sapwood_queue_messages{here})", "{{instance}} {{queue}}"),)),
            Panel(
                "Oldest message",
                (("topk(10, sapwood_queue_oldest_age_seconds{here})", "{{instance}} {{queue}}"),),
                "s",
            ),
            Panel(
                "Latency, 95%",
                (
                    (
                        "topk(10, histogram_quantile(0.95, sum by (instance, queue, le) "
                        "(rate(sapwood_queue_latency_seconds_bucket{rate}))))",
                        "{{instance}} {{queue}}",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) "
                        "(rate(sapwood_message_latency_seconds_bucket{rate})))",
                        "all",
                    ),
                ),
                "s",
                text="From a message's arrival at the node of its reader to its acknowledgement.",
            ),
            Panel(
                "Into queues",
                (
                    (
                        "topk(10, rate(sapwood_queue_messages_entered_total{rate}))",
                        "{{instance}} {{queue}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Out of queues",
                (
                    (
                        "topk(10, rate(sapwood_queue_messages_left_total{rate}))",
                        "{{instance}} {{queue}}",
                    ),
                ),
                "cps",
            ),
            Panel("Readers", (("topk(10, sapwood_queue_readers{here})", "{{instance}} {{queue}}"),)),
        ),
    ),
    (
        "What goes wrong",
        (
            Panel(
                "New dead letters",
                (
                    (
                        "sum by (instance, reason) (increase(sapwood_dead_letters_total{rate})) > 0",
                        "{{instance}} {{reason}}",
                    ),
                ),
            ),
            Panel(
                "Refused",
                (
                    (
                        "sum by (instance, code) (rate(sapwood_messages_refused_total{rate})) > 0",
                        "{{instance}} {{code}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Re-routed, duplicates, unmatched",
                (
                    ("sum(rate(sapwood_messages_rerouted_total{rate}))", "re-routed"),
                    (
                        "sum(rate(sapwood_messages_duplicates_dropped_total{rate}))",
                        "duplicates dropped",
                    ),
                    ("sum(rate(sapwood_messages_unmatched_total{rate}))", "unmatched"),
                    (
                        "sum(rate(sapwood_messages_volatile_dropped_total{rate}))",
                        "volatile, dropped",
                    ),
                ),
                "cps",
            ),
        ),
    ),
    (
        "Disk and process",
        (
            Panel(
                "Commits",
                (
                    (
                        "histogram_quantile(0.5, sum by (instance, le) "
                        "(rate(sapwood_store_commit_duration_seconds_bucket{rate})))",
                        "{{instance}} 50%",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (instance, le) "
                        "(rate(sapwood_store_commit_duration_seconds_bucket{rate})))",
                        "{{instance}} 99%",
                    ),
                ),
                "s",
            ),
            Panel(
                "Messages per commit",
                (
                    (
                        "sum by (instance) (rate(sapwood_messages_entered_total{rate}) + "
                        "rate(sapwood_messages_received_total{rate})) / "
                        "sum by (instance) (rate(sapwood_store_commit_duration_seconds_count{rate}))",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                "Spool, share of its limit",
                (
                    (
                        "sapwood_spool_bytes{here} / sapwood_spool_limit_bytes{here}",
                        "{{instance}} {{direction}}",
                    ),
                ),
                "percentunit",
                red_at=0.8,
            ),
            Panel(
                "Disk",
                (
                    ("sapwood_disk_free_bytes{here}", "{{instance}} free"),
                    ("sapwood_store_used_bytes{here}", "{{instance}} used"),
                ),
                "bytes",
            ),
            Panel(
                "Processor",
                (("rate(process_cpu_seconds_total{rate})", "{{instance}}"),),
                "percentunit",
            ),
            Panel("Memory", (("process_resident_memory_bytes{here}", "{{instance}}"),), "bytes"),
        ),
    ),
    (
        "Routing and applications",
        (
            Panel("Routes", (("sum by (instance, kind) (sapwood_routes{here})", "{{instance}} {{kind}}"),)),
            Panel(
                "Advisories",
                (
                    (
                        "sum by (direction) (rate(sapwood_advisories_received_total{rate}))",
                        "received {{direction}}",
                    ),
                    (
                        "-sum by (direction) (rate(sapwood_advisories_sent_total{rate}))",
                        "sent {{direction}}",
                    ),
                ),
                "cps",
            ),
            Panel("Sessions", (("sapwood_sessions{here}", "{{instance}}"),)),
            Panel(
                "Messages that sessions have and have not acknowledged",
                (("topk(10, sapwood_session_unacknowledged_messages{here})", "{{instance}} {{session}}"),),
                width=12,
            ),
            Panel(
                "Silence of sessions",
                (("topk(10, sapwood_session_silence_seconds{here})", "{{instance}} {{session}}"),),
                "s",
                12,
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The whole file."""
    return {
        "title": "Sapwood",
        "uid": "sapwood",
        "description": "A chain of Sapwood nodes: links, queues, dead letters, disks.",
        "tags": ["sapwood", "messaging"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": [_datasource(), _instances()]},
        "panels": list(_panels()),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _instances() -> dict[str, Any]:
    query = "label_values(sapwood_node_info, instance)"
    return {
        "name": "instance",
        "label": "Node",
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "instances"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, panels in ROWS:
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1}}  # fmt: skip
        number, top, left, deep = number + 1, top + 1, 0, 0
        for panel in panels:
            height = 4 if panel.kind == "stat" else 8
            if left + panel.width > WIDTH:
                top, left, deep = top + deep, 0, 0
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield _panel(number, panel, place)
            number, left, deep = number + 1, left + panel.width, max(deep, height)
        top += deep


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, index, *target) for index, target in enumerate(panel.targets)],
    }


def _target(panel: Panel, index: int, expression: str, legend: str) -> dict[str, Any]:
    now = panel.kind != "timeseries"
    chosen = expression.replace("{rate}", "{here}[$__rate_interval]").replace("{here}", f"{{{HERE_ONLY}}}")
    return {
        "refId": "ABCDEFGH"[index],
        "datasource": DATASOURCE,
        "expr": chosen.replace(", here}", f", {HERE_ONLY}}}"),
        "legendFormat": legend or "__auto",
        "instant": now,
        "range": not now,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_at is not None:
        steps.append({"color": "red", "value": panel.red_at})
    found: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        found["custom"] = {
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": stacking,
        }
    return found


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "table":
        return {"showHeader": True}
    return {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (HERE / "grafana-dashboard.json").write_text(text(), encoding="utf-8")
