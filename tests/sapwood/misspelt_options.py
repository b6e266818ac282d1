"""Options that are misspelt, each with the error that a type checker is to find; `tox -e types` looks.

Strict mypy complains of an ignored error that is none.
"""

from sapwood import Client, connect, sync
from sapwood.journal import Journal


async def right(client: Client) -> None:
    await client.send("queue:q", b"x", expires_in=5, headers={"a": 1}, timeout=5)
    connect("localhost", producer="till", on_lost=print)


async def wrong(client: Client, journal: Journal) -> None:
    await client.send("queue:q", b"x", expire_in=5)  # type: ignore[call-arg]
    await client.publish("queue:q", b"x", priority="high")  # type: ignore[arg-type]
    await client.send_many("queue:q", [b"x"], time_out=5)  # type: ignore[call-arg]
    journal.append("queue:q", b"x", priorty=5)  # type: ignore[call-arg]
    connect("localhost", on_lots=print)  # type: ignore[call-arg]
    sync.connect("localhost", keepalive=5)  # type: ignore[call-arg]
    sync.connect("localhost").send("queue:q", b"x", correlation=5)  # type: ignore[call-arg]
