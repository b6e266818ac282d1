"""RabbitMQ: its connection over AMQP 0-9-1, who consumes there, and the bridge between it and a node.

| module | what to find there |
|---|---|
| `bridge` | the port `bridges.site_brokers.base.Bridge`: what holds the rest together |
| `connection` | pika in asyncio: connections and channels that can be awaited |
| `publisher` | publisher confirms in a window; what was refused, and why |
| `taker`, `bindings` | consuming what others want; the queue through which topics come |
| `messages`, `replies` | destinations and properties, ours and AMQP's; where replies go |
| `census` | who consumes what, pure: events and lists in, consumers out |
| `discovery`, `management` | feed the census: the event exchange, the management API, passive declares |
| `claim` | one node at a virtual host |
| `inspection` | what a RabbitMQ lacks, and the lines to run |
"""

from bridges.site_brokers.base import Bridge, Setup


def make(setup: Setup) -> Bridge:
    """The bridge to a RabbitMQ. `ModuleNotFoundError` without pika."""
    from bridges.site_brokers.rabbitmq.bridge import RabbitBridge

    return RabbitBridge(setup)
