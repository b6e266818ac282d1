"""A till that never waits for its line: it writes each sale down first, and says what the connection does.

python examples/client/till.py ADDRESS [ADDRESS …] [--sales 3] [--wait 10]

The addresses are those of one node: a producer with a name counts there.
"""

import argparse
import json
import sys
import time

from sapwood import ClientError, sync
from sapwood.journal import Journal


def main(addresses: list[str], sales: int, wait: float) -> None:
    with Journal("till-7.journal") as journal:
        for receipt in range(sales):
            sale = json.dumps({"receipt": receipt, "pence": 46})
            journal.append("queue:sales", sale, content_type="application/json", timestamp=time.time())
        print(f"{len(journal)} sales are on this disk")
        with sync.connect(
            addresses,
            session="till-7",
            producer="till-7-sales",
            timeout=wait,
            on_connected=lambda node: print(f"connected to {node}"),
            on_lost=lambda error: print(f"lost: {error}"),
        ) as client:
            print(f"{client.node} took {client.publish_journal(journal, timeout=wait)} sales")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--sales", type=int, default=3)
    parser.add_argument("--wait", type=float, default=10.0)
    given = parser.parse_args()
    try:
        main(given.addresses, given.sales, given.wait)
    except ClientError as error:  # the sales stay in the journal, for the next time
        sys.exit(str(error))
