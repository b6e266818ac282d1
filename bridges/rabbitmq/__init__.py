"""RabbitMQ: its connection over AMQP 0-9-1, who consumes there, and the bridge between it and a node.

| module | what to find there |
|---|---|
| `connection` | pika in asyncio: connections and channels that can be awaited |
| `publisher` | publisher confirms in a window; what was refused, and why |
"""
