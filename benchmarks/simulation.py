"""What a simulated chain costs: memory of a node, time of an event, and a day of a whole chain.

`python -m benchmarks.simulation` measures, each in a process of its own:

- growth: chains of growing size, with no consumers and with `--interests` at each store, at rest: bytes and
  microseconds a node;
- day: `--stores` stores with `--interests` consumers each, which come when the shop opens, go when it closes,
  and reconnect once in between, with the log written: seconds, microseconds an event.

Law: every advisory is counted, and a run whose count is not what the arithmetic says fails.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.processes import machine
from simulation.deployment import Deployment, generated
from simulation.run import Simulation, Task, simulate
from simulation.workload import Churn, Consumers, Workload

_REGION: Final = 88
_SETTLED: Final = 60.0


def _consumers(count: int, *, always: bool) -> tuple[Consumers, ...]:
    """So many at each store."""
    return (Consumers(role="leaf", destination="queue:{node}-{number}", count=count, always=always),)


def _chain(stores: int) -> Deployment:
    return generated(stores, regions=max(1, stores // _REGION))


def growth(stores: int, interests: int) -> dict[str, Any]:
    """A chain at rest, all links up and all consumers known to the root."""
    process = psutil.Process()
    consumers = _consumers(interests, always=True) if interests else ()
    before, began = process.memory_info().rss, time.process_time()
    chain = _chain(stores)
    simulation = Simulation(Task(chain, Workload(consumers=consumers), hours=_SETTLED / 3600))
    found = simulation.run()
    _expect(found["advisories"]["received"], 2 * stores * interests)
    seconds = time.process_time() - began
    return {
        "stores": stores,
        "interests": interests,
        "bytes_a_node": (process.memory_info().rss - before) // len(chain),
        "us_a_node": round(seconds / len(chain) * 1e6),
        "seconds": round(seconds, 1),
        "bytes": process.memory_info().rss,
    }


def day(stores: int, interests: int) -> dict[str, Any]:
    """A day with a log. Reconnects are shorter than the linger: they cost their node, and no advisory."""
    workload = Workload(
        consumers=_consumers(interests, always=False), churn=Churn(every=12 * 3600.0, away=0.001)
    )
    with tempfile.TemporaryDirectory(prefix="sapwood-simulation-") as folder:
        found = simulate(Task(_chain(stores), workload), Path(folder))
    _expect(found["advisories"]["received"], 2 * 2 * stores * interests)
    cost, events = found["cost"], found["consumer_events"]
    return {
        "stores": stores,
        "interests": interests,
        "consumer_events": events,
        "advisories": found["advisories"]["received"],
        "events": cost["events"],
        "seconds": cost["seconds"],
        "processor_seconds": cost["processor_seconds"],
        "us_an_event": cost["event_us"],
        "us_a_consumer_event": round(cost["processor_seconds"] / events * 1e6, 1),
        "bytes": cost["memory"],
    }


def _expect(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"{found} advisories: expected {expected}")


def _apart(measure: Callable[..., dict[str, Any]], *arguments: int) -> dict[str, Any]:
    """In a fresh process, so that memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stores", type=int, default=2200, help="of the day")
    parser.add_argument("--interests", type=int, default=25, help="consumers at each store")
    parser.add_argument(
        "--growth", type=int, nargs="*", default=[1000, 4000], help="stores of chains at rest"
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    options = _options(arguments)
    found: dict[str, Any] = {"machine": machine(), "growth": []}
    say(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    for stores in options.growth:
        for interests in dict.fromkeys((0, options.interests)):
            row = _apart(growth, stores, interests)
            found["growth"].append(row)
            say(
                f"{stores:>7,} stores at rest, {interests:>3} consumers each: {row['bytes_a_node']:>8,} bytes"
                f" and {row['us_a_node']:>6,} us a node, {row['bytes'] / 1e6:,.0f} MB, {row['seconds']:.1f} s"
            )
    if options.stores:
        row = found["day"] = _apart(day, options.stores, options.interests)
        say(
            f"{options.stores:>7,} stores for a day, {options.interests} consumers each:"
            f" {row['consumer_events']:,} consumer events, {row['advisories']:,} advisories,"
            f" {row['seconds']:.1f} s ({row['processor_seconds']:.1f} s of processor),"
            f" {row['us_a_consumer_event']:.0f} us a consumer event, {row['us_an_event']:.0f} us an event,"
            f" {row['bytes'] / 1e6:,.0f} MB"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
