"""Asks the service `stock`, one call and then many at once.

python examples/rpc/client.py [ADDRESS OF A NODE]
"""

import asyncio
import sys

from sapwood import NobodyServes, Rpc, ServiceError, connect, task


async def main(address: str) -> int:
    async with connect(address) as client, Rpc(client, timeout=10) as rpc:
        stock = rpc.service("stock", interface="stock", version="1.0")
        try:
            with task() as name:
                print(f"article 47: {await stock.level(article=47)} on the shelf")
                left = await asyncio.gather(*(stock.reserve(article=47) for _ in range(10)))
        except NobodyServes as error:
            print(error)
            return 1
        print(f"reserved 10, {min(left)} are left; see: sapwood trace --task {name}")
        try:
            await stock.level(article=4711)
        except ServiceError as error:
            print(f"article 4711: {error.message} [{error.code}]")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7600")))
