"""`GET /metrics`: the node's figures for Prometheus, in its own text or as OpenMetrics, whichever it likes.

Needs the token (`authorization` in a scrape configuration), but over loopback. Two scrapers do not disturb
each other: the second waits. Figures of thousands of queues take a while: the node goes on meanwhile.
"""

import asyncio

from aiohttp import web

from broker.http.guard import masked
from broker.http.ports import NodePort
from broker.http.refusals import refusal
from broker.http.settings import HttpSettings
from broker.metrics.collector import Collector
from broker.metrics.exposition import OPEN_METRICS, TEXT, Family, exposition, wants_open_metrics
from broker.shares import LoopShare


class MetricsEndpoint:
    """Handler of `/metrics`."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._settings = settings
        self._collector = Collector(node.report, settings.labels, masked)
        self._shares = node.shares
        self._turn = asyncio.Lock()

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        refused = refusal(request, self._settings.operators)
        if refused is not None:
            return refused
        open_metrics = wants_open_metrics(request.headers.get("Accept", ""))
        async with self._turn:
            families = await self._families()
        response = web.Response(body=exposition(families, open_metrics=open_metrics))
        response.headers["Content-Type"] = OPEN_METRICS if open_metrics else TEXT
        response.enable_compression()
        return response

    async def _families(self) -> list[Family]:
        families: list[Family] = []
        share = LoopShare(self._shares)
        for part in self._collector.parts():
            families += part or ()
            if share.is_over:
                await share.give_way()
        return families
