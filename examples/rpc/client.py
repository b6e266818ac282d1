"""Asks the service `stock`, one call and then many at once.

python examples/rpc/client.py [ADDRESS OF A NODE]
"""

import asyncio
import sys

from sapwood import ClientError, Rpc, ServiceError, connect, task


async def main(address: str) -> None:
    async with connect(address) as client, Rpc(client, timeout=10) as rpc:
        stock = rpc.service("stock", interface="stock", version="1.0")
        with task() as name:
            print(f"article 47: {await stock.level(article=47)} on the shelf")
            left = await asyncio.gather(*(stock.reserve(article=47) for _ in range(10)))
        print(f"reserved 10, {min(left)} are left; see: sapwood trace --task {name}")
        try:
            await stock.level(article=4711)
        except ServiceError as error:
            print(f"article 4711: {error.message} [{error.code}]")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7600"))
    except ClientError as error:  # no node there, or nobody serves
        sys.exit(str(error))
