"""The node's one port: links of children, sessions of applications, and the node's status.

| module | |
|---|---|
| `api` | the HTTP JSON API: the operations of `broker.api` served, and described |
| `answers` | answers in JSON: values that were asked for, and errors |
| `app` | the application on the node's one port: everything that is served there, by path |
| `bindings` | client connections of the node's port, and which session each is bound to |
| `channel_endpoint` | where programs of operators open channels: `GET /channel/NODE/NAME` |
| `dashboard` | the operator's pages: static files of this package, served as they are under `/dashboard/` |
| `diagnostics` | `GET /`: the node's state |
| `documentation` | the page that every answer links to: what this port is, and how to talk to it |
| `encoding` | answers to verbs as bytes, and the headers of requests for them |
| `encrypted` | TLS on the node's port: as asyncio's own |
| `enrolment` | where nodes join and renew: three paths that answer without a token |
| `front` | what stands first on every connection of the node's port |
| `gate` | counts what comes on a WebSocket before the other side has proved itself |
| `guard` | who may ask what: no web page in a visitor's browser drives the node |
| `heads` | heads of HTTP/1.x requests: read, checked, and mended for aiohttp, which is strict |
| `link_endpoint` | where children dial: a WebSocket at /link is a carrier, and the node does the rest |
| `live` | a stream of the node's state for pages and programs that stay: `GET /api/live` |
| `metrics` | `GET /metrics`: the node's figures for Prometheus, in its own text or as OpenMetrics |
| `offer_endpoint` | how applications make channels that others take: `GET /channel` |
| `pages` | the aiohttp application, run for the connections that the port hands over |
| `paths` | names, numbers and times in the paths of the link-level protocol |
| `pipeline` | the requests of one connection that have no answer yet, in their order |
| `polling` | verbs that wait: answered at once if there is something, else when there is |
| `port` | the open port: its listening sockets, the connections on them, and who looks after those |
| `ports` | what the HTTP side needs of the node, and nothing more |
| `mqtt_endpoint` | MQTT over WebSocket: the door of `broker.mqtt` at /mqtt |
| `session_endpoint` | the streaming client session: packets of `session_frames` on a WebSocket at /session |
| `refusals` | answers to whoever may not look at a node or administrate it |
| `settings` | what the HTTP side needs of the site's configuration |
| `stateless` | without a session: publish, receive and acknowledge, each in one request |
| `status` | whether the node is well, for supervisors: `/healthz`, `/readyz` |
| `verb_routes` | the verbs on connections that aiohttp reads |
| `verbs` | the link-level protocol: log in, create, subscribe, send, transfer and acknowledge |
"""
