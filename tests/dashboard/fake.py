"""A made-up node: HQ with 20 regions and 2,000 stores, behind the real pages and the real live stream.

It answers the node's HTTP API with figures that move a little at every look, so that a browser can be shown
what no test could start. `python tests/dashboard/fake.py PORT` serves it for a look.
"""

import asyncio
import math
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from broker.history.series import SERIES
from broker.http.dashboard import Dashboard
from broker.http.live import LiveEndpoint
from broker.http.settings import HttpSettings

REGIONS = 20
STORES = 100
LONGEST = "a-region-with-a-name-as-long-as-names-may-be-and-not-a-letter-mo"
NASTY = "<img src=x onerror=\"document.title='hacked'\">"
_PAGE = {"limit", "after"}
KNOWN = {
    "live": {"parts", "interval"},
    "queues": {"search", "sort", *_PAGE},
    "sessions": _PAGE,
    "consumers": {"search", *_PAGE},
    "dead": {"reason", "destination", *_PAGE},
    "routes": {"search", "kind", "gateway", "node", *_PAGE},
    "links": {"node", *_PAGE},
    "cells": {"node", *_PAGE},
    "tree": set(_PAGE),
    "advisories": {"limit"},
    "history": {"hours", "series", "node"},
    "channels": {"node", *_PAGE},
}
"""What each part of the API takes; what it does not know it refuses, as a node does."""
BUNDLE = "6bcc45ee367c476aae4fd50b0000002a"


def region(number: int) -> str:
    return f"region-{number:02}"


def store(number: int, place: int) -> str:
    return f"store-{number * STORES + place:04}"


def _state(number: int) -> tuple[str, str, bool]:
    """(state, why, dormant) of a link: one of each kind among many that run."""
    if number % 97 == 3:
        return "down", "connect call failed: no route to host", True
    if number % 97 == 11:
        return "down", "the peer was silent for 30 s", False
    if number % 97 == 17:
        return "blocked", "its disk is full: it takes nothing more for now", False
    return ("connecting", "", False) if number % 97 == 23 else ("running", "", False)


def link(name: str, number: int, role: str, turn: int) -> dict[str, Any]:
    state, why, dormant = _state(number)
    runs = state == "running"
    busy = (2 + math.sin(turn / 7 + number)) * (40 if role == "branch" else 3)
    return {
        "name": name,
        "relation": "child",
        "state": state,
        "since_s": 90_000.0 - number * 13 if runs else 40.0 + number,
        "error": why,
        "outbox": 3 if state == "blocked" else 0,
        "waiting": 0 if runs else 1200 + number,
        "routes": 4 + number % 5,
        "role": role,
        "gaps": 1 if number == 40 else 0,
        "dormant": dormant,
        "in": 100_000 + turn * 40,
        "out": 200_000 + turn * 60,
        "in_bundles": 9000,
        "out_bundles": 12_000,
        "bytes_in": 9_000_000,
        "bytes_out": 30_000_000,
        "heard_s": 0.4 if runs else 61.0,
        "spool_oldest_s": 0.0 if runs else 1834.0,
        "in_per_s": busy * 0.6 if runs else 0.0,
        "out_per_s": busy if runs else 0.0,
    }


@dataclass
class FakeNode:
    """`token`: what the API wants, '' = nothing. `missing`: paths that this node does not know."""

    token: str = ""
    missing: tuple[str, ...] = ()
    regions: int = REGIONS
    stores: int = STORES
    turn: int = 0
    dead: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dead = [_letter(number) for number in range(37)]

    def status(self) -> dict[str, Any]:
        self.turn += 1
        wave = math.sin(self.turn / 9)
        return {
            "name": "hq",
            "tree": "acme",
            "role": "root",
            "chain": ["hq"],
            "incarnation": "b54eb6ec711b411a93cf5f02df85545a",
            "uptime_s": 432_000.0 + self.turn,
            "ready": True,
            "refusing": "",
            "parent": None,
            "site_broker": {
                "uri": "mqtt://hq-broker:1883",
                "state": "waiting",
                "error": "the broker at mqtt://hq-broker:1883 cannot be reached",
                "since_s": 75.0,
            },
            "children": [link(region(n), n, "branch", self.turn) for n in range(self.regions)],
            "children_more": 0,
            "alarms": [each for each in _alarms()["alarms"] if each["state"] == "raised"],
            "below": {"nodes": 2200, "down": 3, "down_since_s": 4000.0},
            "queues": [self._queue(n) for n in range(12)],
            "sessions": 18,
            "routes": {"domain/region-00": 101, "queue/region-01": 250, "topic/local": 4},
            "counters": {"delivered": 100 * self.turn, "entered": 80 * self.turn},
            "rates": {
                "in_per_s": 820 + 210 * wave,
                "out_per_s": 1610 + 300 * wave,
                "entered_per_s": 1590 + 300 * wave,
                "delivered_per_s": 815 + 205 * wave,
            },
            "dead": {
                "messages": len(self.dead),
                "bytes": 4100 * len(self.dead),
                "reasons": _tally(_head(letter) for letter in self.dead),
            },
            "store": {"commits": 86_000, "commit_s": 0.0011, "used_bytes": 61_440_000, "disk_free": 8.2e10},
        }

    def tree(self) -> dict[str, Any]:
        children = []
        for n in range(self.regions):
            below = [_below(n, m) for m in range(self.stores)]
            children.append(link(region(n), n, "branch", self.turn) | {"below": below, "below_more": 0})
        node = {"name": "hq", "role": "root", "tree": "acme", "depth": 0, "ready": True}
        return {"node": node, "chain": ["hq"], "parent": None, "children": children, "children_more": 0}

    def _queue(self, number: int) -> dict[str, Any]:
        name = NASTY if number == 2 else f"prices-store-{number:04}" if number else "sales"
        return {
            "name": f"queue:{name}",
            "messages": (number * 37) % 211 * (number % 3),
            "bytes": 3_000 * number,
            "oldest_s": 4.0 * number if number % 3 else 0.0,
            "readers": number % 2,
            "created": True,
            "home": number == 7,
            "transient": number == 9,
            "targets": [region(number % self.regions)] if number % 4 == 0 and self.regions else [],
            "held_back": [],
            "in_total": 12_000 + number,
            "out_total": 11_900,
            "in_per_s": 12.5 * (number % 4),
            "out_per_s": 12.1 * (number % 4),
            "latency_s": 0.0042 * (number % 4),
        }

    # --- HTTP

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        LiveEndpoint(HttpSettings(), {"status": self.status, "tree": self.tree}).add_to(app)
        Dashboard().add_to(app.router)
        for path, answer in (
            ("status", lambda _request: self.status()),
            ("tree", lambda _request: self.tree()),
            ("tree/{node}", self._subtree),
            ("history", _history),
            ("alarms", lambda _request: _alarms()),
            ("queues", self._queues),
            ("queues/{name}", self._one_queue),
            ("queues/{name}/messages", lambda _request: {"messages": [_message(n) for n in range(5)]}),
            ("sessions", lambda _request: {"sessions": [_session(n) for n in range(18)]}),
            ("dead", lambda _request: self._letters()),
            ("routes", self._routes),
            ("links", lambda _request: {"node": "hq", "chain": ["hq"], "links": self._links(), "more": 0}),
            ("cells", lambda _request: {"node": "hq", "cells": [_cell(n) for n in range(30)], "more": 0}),
            ("consumers", lambda _request: {"consumers": [_consumer(n) for n in range(40)]}),
            ("channels", lambda _request: _channels()),
            ("advisories", lambda _request: {"advisories": [_advisory(n) for n in range(120)]}),
            ("trace/message/{id}", lambda request: message_path(request.match_info["id"])),
            ("trace/task/{id}", lambda request: task(request.match_info["id"])),
        ):
            app.router.add_get(f"/api/{path}", _json(answer))
        app.router.add_post("/api/dead/return", self._return)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if request.path.startswith("/api/"):
            if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
                return web.json_response({"code": "REFUSED", "text": "the token is needed"}, status=403)
            known = KNOWN.get(request.path.removeprefix("/api/").split("/")[0], set())
            if not set(request.query) <= known:
                text = f"no parameter {set(request.query) - known}"
                return web.json_response({"code": "BAD_REQUEST", "text": text}, status=400)
            if request.path.startswith(self.missing):
                return web.Response(status=404, text="404: Not Found")
        answer: web.StreamResponse = await handler(request)
        return answer

    def _subtree(self, request: web.Request) -> dict[str, Any]:
        name = request.match_info["node"]
        number = int(name.rpartition("-")[2])
        if not name.startswith("region"):
            node = {"name": name, "role": "leaf", "tree": "acme", "depth": 2, "ready": True}
            return {"node": node, "chain": [name, "region-00", "hq"], "parent": None, "children": []}
        node = {"name": name, "role": "branch", "tree": "acme", "depth": 1, "ready": True}
        first = number * STORES
        children = [link(store(number, m), first + m, "leaf", self.turn) for m in range(self.stores)]
        return {"node": node, "chain": [name, "hq"], "parent": None, "children": children}

    def _queues(self, request: web.Request) -> dict[str, Any]:
        searched = request.query.get("search", "").lower()
        found = [queue for queue in map(self._queue, range(300)) if searched in queue["name"].lower()]
        return {"queues": found, "more": 0}

    def _one_queue(self, request: web.Request) -> dict[str, Any]:
        name = request.match_info["name"]
        found = next((queue for queue in map(self._queue, range(300)) if queue["name"] == name), None)
        if found is None:
            raise web.HTTPNotFound(text='{"code": "NOT_FOUND", "text": "no such queue"}')
        return {**found, "given": 2, "reading": [_reader()]}

    def _routes(self, request: web.Request) -> dict[str, Any]:
        rows = [
            {
                "kind": "domain",
                "destination": store(n, m),
                "gateway": region(n),
                "live": (n + m) % 31 > 0,
                "via": "child",
                "origin": store(n, m),
            }
            for n in range(self.regions)
            for m in range(self.stores)
        ]
        searched, kind = request.query.get("search", "").lower(), request.query.get("kind", "")
        found = [row for row in rows if searched in str(row["destination"]) and kind in ("", row["kind"])]
        after, limit = int(request.query.get("after", "0")), int(request.query.get("limit", "500"))
        counts = {f"domain/{region(n)}": self.stores for n in range(self.regions)} | {"topic/local": 4}
        counts[f"domain/{LONGEST}"] = 900
        end = after + limit
        more = max(0, len(found) - end)
        page = found[after:end]
        return {"routes": page, "counts": counts, "more": more, "next": str(end) if more else None}

    def _links(self) -> list[dict[str, Any]]:
        told = {"zone": "uk", "addresses": ["wss://10.1.0.7:7600/link"], "set": 0, "incarnation": "0f" * 16}
        return [link(region(n), n, "branch", self.turn) | told for n in range(self.regions)]

    def _letters(self) -> dict[str, Any]:
        reasons = _tally(_head(letter) for letter in self.dead)
        return {"letters": self.dead, "more": 0, "next": None, "messages": len(self.dead), "reasons": reasons}

    async def _return(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        kept = [
            letter
            for letter in self.dead
            if letter["id"] not in asked.get("ids", [letter["id"]])
            or _head(letter) != asked.get("reason", _head(letter))
        ]
        returned, self.dead = len(self.dead) - len(kept), kept
        return web.json_response({"returned": returned})


def _reader() -> dict[str, Any]:
    return {"session": "till…5f3a09c1", "address": "10.1.0.7:51002", "credit": 64, "outstanding": 2}


def _json(answer: Any) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer(request))

    return handle


def _head(letter: dict[str, Any]) -> str:
    return str(letter["reason"]).partition(":")[0]


def _tally(names: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def _below(number: int, place: int) -> dict[str, Any]:
    return {"name": store(number, place), "live": _state(number * STORES + place)[0] != "down"}


def _letter(number: int) -> dict[str, Any]:
    reason = ("QUEUE_DOES_NOT_EXIST", "EXPIRED", "TOO_LARGE")[number % 3]
    return {
        "id": f"letter-{number}",
        "message": f"{BUNDLE}-{number}",
        "reason": f"{reason}: nobody took it in time",
        "destination": f"queue:{NASTY}" if number == 4 else f"queue:orders-{number % 5}",
        "origin": store(0, number),
        "age_s": 60.0 * number + 12,
        "size": 412 + number,
        "correlation_id": number,
        "preview": f'{{"id": "sale/{number}", "article": 1004}}',
    }


def _message(number: int) -> dict[str, Any]:
    return {
        "id": f"{BUNDLE}-{number}",
        "age_s": 12.0 + number,
        "size": 256,
        "correlation_id": number,
        "origin": "hq",
        "given": number < 2,
        "deliveries": number,
        "preview": '{"article": 1004, "pence": 46}' if number else NASTY,
    }


def _session(number: int) -> dict[str, Any]:
    connection = {
        "address": f"10.1.{number}.7:51{number:03}",
        "heard_s": 1.5 + number,
        "kind": "stream" if number % 3 else "http",
        "in": 120 * number,
        "out": 340 * number,
        "bytes_in": 24_000 * number,
        "bytes_out": 68_000 * number,
    }
    return {
        "session": f"till…5f3a09{number:02x}",
        "connections": [connection] * (1 + number % 2),
        "subscriptions": ["queue:sales"],
        "unacknowledged": number % 4,
        "transient": 1,
    }


def _consumer(number: int) -> dict[str, Any]:
    return {
        "id": None,
        "destination": f"queue:prices-{number:04}",
        "session": f"till…5f3a09{number:02x}",
        "credit": 64,
        "outstanding": number % 3,
        "messages": 9 * number,
    }


def _cell(number: int) -> dict[str, Any]:
    name = NASTY if number == 2 else f"prices-{number:04}"
    return {"name": name, "own": number < 3, "readers": number % 2, "messages": 7 * number, "also": []}


def _channels() -> dict[str, Any]:
    """As many as fill a page, one of them to a service with a nasty name."""
    totals = {"opened": 90, "refused": 3, "broken": 2, "bytes": 7_000_000_000}
    listed = [_channel(n) for n in range(60)]
    return {"node": "hq", "offers": ["prices-web"], "channels": listed, "more": 0, "next": None} | totals


def _channel(number: int) -> dict[str, Any]:
    return {
        "channel": f"{number:032x}",
        "origin": "hq",
        "to": store(number % REGIONS, number),
        "name": NASTY if number == 7 else "till-web",
        "near": f"night-desk at 10.0.0.7:{40_000 + number}",
        "far": region(number % REGIONS),
        "state": "opening" if number == 3 else "open",
        "for_s": 12.5 * number,
        "there": 900 * number,
        "back": 1_250_000 * number,
        "waiting": 65_536 if number == 9 else 0,
    }


def _advisory(number: int) -> dict[str, Any]:
    return {
        "at": f"2031-05-04T11:{59 - number // 60:02}:{59 - number % 60:02}.123456+00:00",
        "event": "advisory",
        "op": ("add", "remove", "dormant", "live")[number % 4],
        "kind": ("queue", "topic", "domain")[number % 3],
        "destination": f"prices-store-{number:04}",
        "peer": region(number % REGIONS),
        "direction": "up",
        "cause": f"c{number:05}",
        "origin": store(number % REGIONS, number % STORES),
    }


def _alarms() -> dict[str, Any]:
    """Three alarms, one of which is raised; of the receiver one event is still to be taken."""
    alarms = []
    for name, state, severity, condition, value, now in (
        ("backlog", "raised", "critical", "waiting of queue sales above 5000 for 10m", 7312.0, "7312"),
        ("disk-slow", "pending", "warning", "commit above 1s for 5m", 1.7, "1.7s"),
        ("takes-no-messages", "well", "critical", "refusing above 0 for 1m", 0.0, "0"),
    ):
        shown = {"name": name, "state": state, "severity": severity, "condition": condition}
        more = {"metric": "waiting", "queue": None, "value": value, "now": now, "builtin": False}
        hour_ago = datetime.fromtimestamp(time.time() - 3600, UTC).isoformat()
        since = hour_ago if state == "raised" else None
        alarms.append({**shown, **more, "since": since})
    told = {"host": "https://alerts.example.com", "waiting": 1, "sent": 12, "refused": 0, "dropped": 0}
    return {"node": "hq", "alarms": alarms, "webhook": {**told, "error": "no answer in time"}}


def _history(request: web.Request) -> dict[str, Any]:
    """An uneven day with an hour in which the node did not run, a day of 96 points whatever was asked."""
    hours = float(request.query.get("hours", 1))
    step, until = hours * 3600 / 96, time.time()
    places = [place for place in range(96) if not 40 <= place < 52]
    at = [until - hours * 3600 + step * place for place in places]
    wave = [1.2 + math.sin(place / 7) + 0.2 * math.sin(place * 2.3) for place in places]
    series = []
    for each in SERIES:
        scale = {"/s": 140.0, "s": 0.02, "bytes": 3.0e8}.get(each.unit, 40.0)
        values = [round(scale * height, 4) for height in wave]
        shown = {"name": each.name, "title": each.title, "unit": each.unit, "values": values}
        series.append(shown if each.name != "parent_down" else {**shown, "values": [None] * len(at)})
    told = {"since_s": until - hours * 3600, "until_s": until, "step_s": step, "at": at}
    return {"node": "hq", **told, "series": series}


def _at(milliseconds: float) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"2031-05-04T11:{int(seconds) // 60:02}:{int(seconds) % 60:02}.{round(rest * 1000):06}+00:00"


def message_path(identity: str) -> dict[str, Any]:
    """HQ to a store; the region waits for the store for a minute."""
    names = ("arrived", "committed", "sent", "acknowledged", "delivered", "dealt_with")
    hops = (
        ("hq", "", "region-00", (0.0, 1.1, 1.3, 4.2, None, None)),
        ("region-00", "hq", "store-0007", (2.4, 3.4, 63_400.0, 63_404.0, None, None)),
        ("store-0007", "region-00", "", (63_401.2, 63_402.9, None, None, 63_403.0, 63_431.0)),
    )
    return {
        "id": identity,
        "destination": "queue:prices-store-0007",
        "origin": "hq",
        "hops": [
            {
                "node": node,
                "came": came,
                "to": [to] if to else [],
                **{name: None if at is None else _at(at) for name, at in zip(names, times, strict=True)},
                "ms": {name: at for name, at in zip(names, times, strict=True) if at is not None},
                "clock_shifted_s": 0.0,
                "events": _hop_events(came, to, dict(zip(names, times, strict=True))),
            }
            for node, came, to, times in hops
        ],
        "complete": True,
        "unreachable": ["store-0040"],
        "why": {"store-0040": "the link to 'region-00' has been down for 51 s"},
    }


def _hop_events(came: str, to: str, times: dict[str, float | None]) -> list[dict[str, Any]]:
    found = []
    for kind, at in times.items():
        if at is not None:
            neighbour = {"arrived": came, "sent": to, "acknowledged": to}.get(kind, "")
            event = {"kind": kind, "at": _at(at), "ms": at}
            if neighbour:
                event["neighbour"] = neighbour
            if kind in ("delivered", "dealt_with"):
                event["session"] = "till…5f3a09c1"
            found.append(event)
    return found


def task(identity: str) -> dict[str, Any]:
    """A till asks for stock at HQ, HQ asks a region, both are answered."""
    steps = (
        (0.0, "store-0007", "entered", "stock", "1", "store-0007.a1"),
        (1.2, "store-0007", "sent", "stock", "1", "store-0007.a1"),
        (2.9, "hq", "arrived", "stock", "1", "store-0007.a1"),
        (4.0, "hq", "delivered", "stock", "1", "store-0007.a1"),
        (6.1, "hq", "entered", "shelves", "2", "hq.b2"),
        (7.0, "hq", "sent", "shelves", "2", "hq.b2"),
        (8.2, "region-03", "arrived", "shelves", "2", "hq.b2"),
        (9.1, "region-03", "delivered", "shelves", "2", "hq.b2"),
        (21.4, "region-03", "entered", "hq.b2", "3", None),
        (22.0, "region-03", "dealt_with", "shelves", "2", "hq.b2"),
        (22.6, "region-03", "sent", "hq.b2", "3", None),
        (23.9, "hq", "arrived", "hq.b2", "3", None),
        (24.6, "hq", "delivered", "hq.b2", "3", None),
        (25.1, "hq", "dealt_with", "hq.b2", "3", None),
        (26.3, "hq", "entered", "store-0007.a1", "4", None),
        (26.8, "hq", "dealt_with", "stock", "1", "store-0007.a1"),
        (27.2, "hq", "sent", "store-0007.a1", "4", None),
        (28.8, "store-0007", "arrived", "store-0007.a1", "4", None),
        (29.5, "store-0007", "delivered", "store-0007.a1", "4", None),
        (30.0, "store-0007", "dealt_with", "store-0007.a1", "4", None),
    )
    events = [
        {
            "at": _at(at),
            "ms": at,
            "node": node,
            "kind": kind,
            "queue": queue,
            "session": "till…5f3a09c1",
            "message": f"{BUNDLE}-{message}",
            "correlation_id": 7,
            "reply_to": reply_to,
        }
        for at, node, kind, queue, message, reply_to in steps
    ]
    return {"task": identity, "events": events}


async def _serve(port: int) -> None:
    runner = web.AppRunner(FakeNode().app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.sleep(time.monotonic() + 3600)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
