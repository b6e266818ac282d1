"""RabbitMQ: who consumes there, and the bridge between it and a node. `bridges.amqp` has pika.

| module | what to find there |
|---|---|
| `bridge` | the port `bridges.site_brokers.base.Bridge`: what holds the rest together |
| `connection` | where a site's RabbitMQ is, and its management API |
| `exchanges`, `changeover` | which topic is of which exchange; what waited under another list of them |
| `taking`, `taps`, `bindings` | consuming what others want; one queue; the queue through which topics come |
| `streams`, `recognition` | how far each stream was taken; whether it is still the same one |
| `publishing` | publisher confirms in a window; what was refused, and why |
| `messages`, `replies` | destinations and properties, ours and AMQP's; where replies go |
| `amqp_1_0` | what applications that speak AMQP 1.0 write otherwise |
| `discovery`, `management` | who consumes: the event exchange, the management API, passive declares |
| `consumers` | the table of queues, pure: events and lists in, consumers out |
| `ownership` | one node at a virtual host |
| `inspection`, `policies` | what a RabbitMQ lacks, and the lines to run; which policies harm our queues |
"""

from bridges.site_brokers.base import Bridge, Setup


def make(setup: Setup) -> Bridge:
    """The bridge to a RabbitMQ. `ModuleNotFoundError` without pika."""
    from bridges.site_brokers.rabbitmq.bridge import RabbitBridge

    return RabbitBridge(setup)
