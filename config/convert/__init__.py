"""Other brokers' bridges, read into a site's configuration; what has no counterpart is said.

| module | |
|---|---|
| `activemq` | network connectors of ActiveMQ Classic: the elements `networkConnector` of an activemq.xml |
| `conversion` | one bridge of another broker, made into the file of a node beside that broker |
| `draft` | what a reader of another broker's configuration fills in: one way to a parent |
| `mosquitto` | bridges of Mosquitto: the sections `connection` of a mosquitto.conf |
| `rabbitmq` | shovels and federation of RabbitMQ: the JSON of `rabbitmqctl export_definitions` |
"""

from config.convert.conversion import MAX_BYTES, Conversion, convert
from config.convert.draft import Note

__all__ = ["MAX_BYTES", "Conversion", "Note", "convert"]
