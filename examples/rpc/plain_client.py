"""The same without asyncio: every call waits; any number of threads may share the client.

python examples/rpc/plain_client.py [ADDRESS OF A NODE]
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from sapwood import ClientError, sync


def main(address: str) -> None:
    with sync.connect(address) as client, ThreadPoolExecutor(4) as threads:
        stock = client.rpc.service("stock", interface="stock", version="1.0", timeout=10)
        print(f"article 48: {stock.level(article=48)} on the shelf")
        left = [threads.submit(stock.reserve, article=48) for _ in range(10)]
        print(f"reserved 10, {min(one.result() for one in left)} are left")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7600")
    except ClientError as error:  # no node there, or nobody serves
        sys.exit(str(error))
