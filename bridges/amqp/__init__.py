"""pika in asyncio, for whatever speaks AMQP 0-9-1: the carrier and the bridge to RabbitMQ.

| module | what to find there |
|---|---|
| `connection` | connections and channels that can be awaited |
| `server` | where a RabbitMQ is, and as whom to log in |
| `bulk` | pika's connection, with messages and confirms past it |
| `frames`, `tables` | the frames of messages, many at once; their properties |
| `headers` | headers that pika misreads; the one patch of pika |
| `login` | why a RabbitMQ did not let us in, for people |
| `errors` | what goes wrong; no exception of pika leaves this package |
"""
