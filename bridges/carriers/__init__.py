"""Carriers: packets between two neighbours, and nothing else. The same tests hold for all.

| module | what to find there |
|---|---|
| `base` | the port: what every carrier guarantees, and its errors |
| `registry` | which adapter a link URI leads to |
| `websocket` | ws, wss: directly to the parent's port |
| `websocket_accept` | the same, at the parent's end |
| `websocket_line` | an open one, at either end |
| `websocket_frames` | its frames: read into messages, written in parts |
| `websocket_errors` | why one could not be dialled, or has ended |
| `line_room` | how much a slow line takes before it would only queue |
| `line_wakes` | how few times one that brings a long frame wakes whoever reads it |
| `memory` | between two nodes of one process |
| `brokered` | what links over brokers have in common |
| `mqtt`, `mqtt_client` | mqtt, mqtts: through a Mosquitto, with paho |
| `amqp` | amqp, amqps: through a RabbitMQ, with pika |

websockets looks its version up among what is installed, but only in a checkout of its own: it is loaded
without that.
"""

from bridges.unneeded import without

with without("importlib.metadata"):
    import websockets as websockets
