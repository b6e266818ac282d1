"""Bridges between a node and the broker that its site's applications use.

| module | what to find there |
|---|---|
| `registry` | which bridge an address leads to |
| `mosquitto` | Mosquitto and other MQTT brokers, with paho |
| `rabbitmq` | RabbitMQ, with pika |
| `base` | the port: what a bridge does, what it may call, what it is made with |

The packages have the same file names for the same concern: `bridge` (the port), `connection`, `taking`,
`publishing`, `messages`, `discovery` and `consumers` (who reads what), `ownership` (one node at one broker),
`inspection` (what the broker lacks).
"""
