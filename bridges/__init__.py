"""Everything that touches another program.

| module | what to find there |
|---|---|
| `carriers` | packets between two neighbours: WebSocket, MQTT, AMQP, memory |
| `site_brokers` | bridges to the broker that a site's applications use: Mosquitto, RabbitMQ |
| `properties` | properties of messages: ours, MQTT's and AMQP's |
| `amqp`, `mqtt` | pika and paho in asyncio, which the two above share |
| `dialling` | what went wrong while a broker was dialled, for people |
| `dns` | where nodes are, as DNS tells it |
| `resets` | whether a line was reset, whatever waits to be read there |
| `tls`, `certificates` | TLS contexts and what a peer has shown; authorities and requests |
| `unneeded` | libraries without those that they load in vain |

Law: each row needs only what stands below it, and nothing here knows the node.
"""
