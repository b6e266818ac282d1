"""Logs of other people's brokers, read as advisory logs: so that a chain can audit what it runs today.

Each importer is a dialect of lines of JSON (`lines.Dialect`): its files go the way of every log, with the
same care for what is cut, broken or there twice. Deployments are tables of sites as always, with the brokers'
own names.

| module | |
|---|---|
| `activemq` | ActiveMQ Classic: the advisories of `ActiveMQ.Advisory.Consumer.>` at each broker |
| `nats` | NATS: snapshots of each server's `/leafz?subs=1`, with the server's own name added as `server` |
"""

from typing import Final

from audit.importers import activemq, nats
from audit.lines import Dialect

DIALECTS: Final[dict[str, Dialect]] = {"activemq": activemq.DIALECT, "nats": nats.DIALECT}
