"""`sapwood subscription end`: a session's durable subscription ends as the session itself would end it."""

import asyncio

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.messages import Login
from broker.cli.output import patience, print_json


def end_subscription(login: Login, name: str, *, as_json: bool) -> None:
    """End a session's durable subscription for good. Raises `CommandError` or `ClientError`."""
    if not login.session:
        raise CommandError("whose subscription? Say it with --session SESSION", WRONG_USE)
    with patience(f"asking {login.url}"):
        asyncio.run(_end(login, name))
    if as_json:
        print_json({"ended": name})
    else:
        print(f"the durable subscription {name} is ended, and what waited for it is gone")


async def _end(login: Login, name: str) -> None:
    async with login.client() as client:
        await client.end_subscription(name)
