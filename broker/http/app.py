"""The application on the node's one port: everything that is served there, by path.

Whoever imports it loads aiohttp: see `port`.
"""

import asyncio
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from broker.entrance.operators import Operators
from broker.http.api import Api
from broker.http.channel_endpoint import ChannelEndpoint
from broker.http.dashboard import Dashboard
from broker.http.diagnostics import Diagnostics
from broker.http.documentation import add_link, documentation
from broker.http.guard import address, bearer, over_loopback
from broker.http.link_endpoint import LinkEndpoint
from broker.http.live import LiveEndpoint, node_parts
from broker.http.metrics import MetricsEndpoint
from broker.http.mqtt_endpoint import MqttEndpoint
from broker.http.pages import Application, tell_of_memory
from broker.http.ports import NodePort
from broker.http.refusals import WrongToken
from broker.http.session_endpoint import SessionEndpoint
from broker.http.settings import HttpSettings
from broker.http.stateless import Stateless
from broker.http.status import StatusEndpoint
from broker.http.verb_routes import VerbRoutes
from broker.http.verbs import Verbs


async def _slow_guessers(node: NodePort, request: web.Request, response: web.StreamResponse) -> None:
    """Whoever tries token after token waits for its answers."""
    if isinstance(response, WrongToken):
        await asyncio.sleep(
            node.entrance.wrong_token(address(request), response.why, near=over_loopback(request))
        )


def _knows_tokens(operators: Operators) -> Middleware:
    """Keys of an issuer may have to be fetched before its token is looked at, which waits for nobody."""

    @web.middleware
    async def know(request: web.Request, handler: Handler) -> web.StreamResponse:
        await operators.ready(bearer(request))
        return await handler(request)

    return know


def build_app(
    node: NodePort, settings: HttpSettings | None = None, verbs: Verbs | None = None
) -> web.Application:
    """The application of `node`: links, sessions, verbs, status, documentation."""
    settings = settings or HttpSettings()
    middlewares = [tell_of_memory, _knows_tokens(settings.operators)]
    app = web.Application(client_max_size=settings.max_message + 1, middlewares=middlewares)
    app.on_response_prepare.append(add_link)
    app.on_response_prepare.append(partial(_slow_guessers, node))
    status = StatusEndpoint(node)
    router = app.router
    verbs = verbs or Verbs(node, settings)
    guests = verbs.bindings.guest
    if node.enrolment is not None:
        from broker.http.enrolment import EnrolmentEndpoint

        EnrolmentEndpoint(node.enrolment).add_to(router)
    router.add_get("/link", LinkEndpoint(node, settings, guests).handle, allow_head=False)
    SessionEndpoint(node, settings, guests).add_to(app)
    ChannelEndpoint(node, settings, guests).add_to(app)
    router.add_get("/mqtt", MqttEndpoint(node, guests).handle, allow_head=False)
    VerbRoutes(verbs).add_to(router)
    LiveEndpoint(settings, node_parts(node)).add_to(app)
    Stateless(node, settings, verbs.bindings).add_to(app)
    Api(node, settings).add_to(router)
    Dashboard().add_to(router)
    router.add_get("/metrics", MetricsEndpoint(node, settings).metrics)
    router.add_get("/healthz", status.health)
    router.add_get("/readyz", status.readiness)
    router.add_get("/docs", documentation)
    router.add_get("/", Diagnostics(node, settings, verbs.bindings).handle)
    return app


def pages(node: NodePort, settings: HttpSettings, verbs: Verbs) -> Application:
    """The same, run for the connections that the port hands over."""
    return Application(build_app(node, settings, verbs))
