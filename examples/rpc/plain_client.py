"""The same without asyncio: every call waits; any number of threads may share the client.

python examples/rpc/plain_client.py [ADDRESS OF A NODE]
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from sapwood import NobodyServes, sync


def main(address: str) -> int:
    with sync.connect(address) as client, ThreadPoolExecutor(4) as threads:
        stock = client.rpc.service("stock", interface="stock", version="1.0", timeout=10)
        try:
            print(f"article 48: {stock.level(article=48)} on the shelf")
        except NobodyServes as error:
            print(error)
            return 1
        left = [threads.submit(stock.reserve, article=48) for _ in range(10)]
        print(f"reserved 10, {min(one.result() for one in left)} are left")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7600"))
