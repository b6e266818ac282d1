"""`GET /metrics`: the node's figures for Prometheus, in its own text or as OpenMetrics, whichever it likes.

Needs the token (`authorization` in a scrape configuration), but over loopback. Two scrapers do not disturb
each other. Wrinkle: figures of thousands of queues take a while: between parts of them the node goes on.
"""

import asyncio

from aiohttp import web

from broker.http.guard import masked, refusal
from broker.http.ports import NodePort
from broker.http.settings import HttpSettings
from broker.metrics.collector import Collector
from broker.metrics.exposition import OPEN_METRICS, TEXT, Family, exposition, wants_open_metrics


class MetricsEndpoint:
    """Handler of `/metrics`."""

    def __init__(self, node: NodePort, settings: HttpSettings) -> None:
        self._settings = settings
        self._collector = Collector(node.report, settings.labels, masked)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        refused = refusal(request, self._settings.token)
        if refused is not None:
            return refused
        open_metrics = wants_open_metrics(request.headers.get("Accept", ""))
        families: list[Family] = []
        for part in self._collector.parts():
            families += part
            await asyncio.sleep(0)
        response = web.Response(body=exposition(families, open_metrics=open_metrics))
        response.headers["Content-Type"] = OPEN_METRICS if open_metrics else TEXT
        response.enable_compression()
        return response
