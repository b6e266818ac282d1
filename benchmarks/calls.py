"""The cost of a generated client and server beside plain calls, over a real node.

`python -m benchmarks.calls` starts a node as a process. Here a caller and a server are clients of it, and a
round makes `--calls` calls by `Rpc.call` to a plain handler, then as many through the example's generated
code. CPU is that of this process: caller and server together. The ratio is that of the medians.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.processes import Processes, machine
from benchmarks.switch import start_node
from sapwood import Rpc, connect

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "interfaces" / "python"


async def _costs(call: Callable[[], Awaitable[object]], calls: int, together: int) -> dict[str, float]:
    """Microseconds of CPU and of time for each of so many calls, `together` under way at once."""
    left = iter(range(calls))

    async def some() -> None:
        for _ in left:
            await call()

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(some() for _ in range(together)))
    return {
        "cpu_us": 1e6 * (time.process_time() - cpu) / calls,
        "us": 1e6 * (time.perf_counter() - began) / calls,
    }


async def measure(url: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way and round."""
    sys.path.insert(0, str(EXAMPLE))
    from chain.stock_v1 import Stock_server_dispatcher, StockClient
    from server import Stock

    async def level(article: int) -> dict[str, Any]:
        return {"pieces": 12, "places": [{"aisle": 3, "pieces": 12}]}

    rows = []
    async with connect(url) as caller, connect(url) as server, Rpc(caller) as rpc, Rpc(server) as serving:
        served = [Stock_server_dispatcher(Stock())]
        async with serving.serve("plain", {"level": level}), serving.serve("stock", served):
            stock = StockClient(rpc)
            ways: dict[str, Callable[[], Awaitable[object]]] = {
                "plain": lambda: rpc.call("plain", "level", article=4711),
                "generated": lambda: stock.level(article=4711),
            }
            for number in range(options.rounds + 1):
                for way, call in ways.items():
                    costs = await _costs(call, options.calls, options.together)
                    if number:  # the first warms up
                        rows.append({"way": way, **costs})
    return rows


def main(words: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls of a round and way")
    parser.add_argument("--together", type=int, default=16, help="calls under way at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args(words)
    about = machine()
    with TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        _, port = start_node(processes, Path(folder), accounts=False)
        rows = asyncio.run(measure(f"http://127.0.0.1:{port}", options))
    middle = {
        way: median(row["cpu_us"] for row in rows if row["way"] == way) for way in ("plain", "generated")
    }
    for way, cost in middle.items():
        say(f"{way:10} {cost:7.0f} us of CPU a call")
    say(f"a generated call costs {middle['generated'] / middle['plain']:.2f} times a plain one")
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
