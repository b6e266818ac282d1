"""What many nodes' names cost: memory and look-up time of routing table and address cache, and joining.

`python -m benchmarks.names` measures, in one process:

- look-ups: a routing table and an address cache with `--nodes` names, beside a plain dict with the same names
  in the same run: bytes a name, nanoseconds a look-up, and how many times the dict's that is;
- joining: a simulated chain of `--nodes` stores at rest in which `--joins` more join: what each level hears
  and computes, and the same in a chain of `--small` stores. What a join costs must not grow with the chain.

Law: what is counted (advisories, whereabouts) must be what the arithmetic says, else the run fails.
"""

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.processes import machine
from broker.core.messages.queue import Queue
from sapwood.protocol.destinations import domain, queue
from sapwood.protocol.names import incarnation_text
from simulation.deployment import generated
from simulation.machine import Machine
from simulation.run import Simulation, Task
from simulation.workload import Workload
from treeconnector.addresses import AddressCache
from treeconnector.frames import Whereabouts
from treeconnector.routes import Route, RoutingTable

_SETTLED: Final = 60.0
_REGION: Final = 100
_JOINED: Final = 2
_HEARD: Final = ("advisories", "whereabouts", "bytes")
_LEVELS: Final = {"leaf": "store", "branch": "region", "root": "root"}


def _names(count: int) -> list[str]:
    return [f"store-{number:06}" for number in range(count)]


def _incarnation(number: int) -> bytes:
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % (1 << 128)).to_bytes(16, "big")


# --- look-ups


def _as_dict(names: list[str]) -> dict[str, str]:
    return {name: f"region-{number // _REGION}" for number, name in enumerate(names)}


def _as_table(names: list[str]) -> RoutingTable:
    table = RoutingTable()
    for number, name in enumerate(names):
        table.put(Route(domain(name), f"region-{number // _REGION}", True, name, "start", 1))
    return table


def _as_cache(names: list[str]) -> AddressCache:
    cache = AddressCache(lambda: 2 * len(names))
    for number, name in enumerate(names):
        found = Whereabouts(name, _incarnation(number), [f"wss://{name}.example.com:7600/link"])
        cache.put(found, f"region-{number // _REGION}", 0.0)
    return cache


def _bytes(make: Callable[[list[str]], Any], names: list[str]) -> tuple[Any, int]:
    """What is made, and the bytes of it for each name."""
    gc.collect()
    tracemalloc.start()
    made = make(names)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, size // len(names)


def _nanoseconds(call: Callable[[Any], object], keys: list[Any], rounds: int) -> float:
    """Of one call; the best of so many rounds over all keys, since a busy machine only ever adds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter_ns()
        for key in keys:
            call(key)
        best = min(best, (time.perf_counter_ns() - began) / len(keys))
    return best


def look_ups(count: int, rounds: int) -> list[dict[str, Any]]:
    names = _names(count)
    plain, dict_bytes = _bytes(_as_dict, names)
    table, table_bytes = _bytes(_as_table, names)
    cache, cache_bytes = _bytes(_as_cache, names)
    incarnations = [incarnation_text(_incarnation(number)) for number in range(count)]

    def find(key: str) -> object:
        return cache.find(key, 0.0)

    domains = [domain(name) for name in names]
    rows = [
        ("dict, by name", dict_bytes, _nanoseconds(plain.__getitem__, names, rounds)),
        ("table, by name", table_bytes, _nanoseconds(table.gateways, domains, rounds)),
        ("cache, by name", cache_bytes, _nanoseconds(find, names, rounds)),
        (
            "cache, by incarnation",
            cache_bytes,
            _nanoseconds(find, incarnations, rounds),
        ),
    ]
    fastest = rows[0][2]
    return [
        {"what": what, "bytes_a_name": size, "ns": round(ns), "times_dict": round(ns / fastest, 1)}
        for what, size, ns in rows
    ]


# --- joining


class _Costs:
    """Nanoseconds of this process by the level of the node that computes, if it is `watched`."""

    def __init__(self, simulation: Simulation) -> None:
        self.ns: Counter[str] = Counter()
        self.watched: set[Machine] = set()
        world = simulation.world
        arrive, commit, wake, boot = world._arrive, world._commit, world._wake, world.boot

        def timed(machine: Machine, call: Callable[..., object], *arguments: Any) -> None:
            began = time.process_time_ns()
            call(*arguments)
            if machine in self.watched:
                self.ns[machine.role] += time.process_time_ns() - began

        replaced: Any = world
        replaced._arrive = lambda end, packets: timed(end.peer.machine, arrive, end, packets)
        replaced._commit = lambda machine, core: timed(machine, commit, machine, core)
        replaced._wake = lambda machine, *rest: timed(machine, wake, machine, *rest)
        replaced.boot = lambda machine: timed(machine, boot, machine)


def _heard(machines: list[Machine]) -> Counter[str]:
    """What nodes have heard so far from below, by level."""
    found: Counter[str] = Counter()
    for each in machines:
        core = each.core
        level = _LEVELS[each.role]
        found[f"{level} advisories"] += core.advertising.heard["up"]
        found[f"{level} whereabouts"] += core.logical_addresses.counters["i_have_in"]
        found[f"{level} bytes"] += sum(neighbour.bytes_in for neighbour in core.neighbours.values())
    return found


def joining(stores: int, joins: int) -> dict[str, Any]:
    """Let stores join a chain at rest, one after the other, below a few of its regions."""
    chain = generated(stores, regions=max(1, stores // _REGION))
    simulation = Simulation(Task(chain, Workload(), hours=_SETTLED / 3600))
    simulation.run()
    world = simulation.world
    regions = [each for each in world.machines.values() if each.role == "branch"]
    above = [*regions, world["hq"]]
    _expect(len(world["hq"].core.logical_addresses.cache), len(chain) - 1, "nodes known to the root")
    before, costs = _heard(above), _Costs(simulation)
    gc.collect()
    gc.freeze()  # a real node has no ten thousand others in its process for the collector to look at
    spent: list[Counter[str]] = []
    line = next(each.line for each in world.machines.values() if each.role == "leaf")
    for number, region in enumerate(islice(cycle(regions[:_JOINED]), joins)):
        joined = world.add(f"joined-{number}", region.name, "leaf", line)
        costs.watched, costs.ns = {joined, region, world["hq"]}, Counter()
        world.at(world.now, world.boot, joined)
        world.run(world.now + _SETTLED)
        spent.append(costs.ns)
    gc.unfreeze()
    heard = _heard(above)
    heard.subtract(before)
    _expect(heard["region advisories"], joins, "advisories at regions")
    _expect(heard["root advisories"], joins, "advisories at the root")
    _expect(heard["root whereabouts"], joins, "whereabouts at the root")
    _expect(len(world["hq"].core.logical_addresses.cache), len(chain) - 1 + joins, "nodes known to the root")
    _find_all(world["hq"])
    rows = {
        level: {
            "us": round(median(each[role] for each in spent) / 1000),
            **{what: round(heard[f"{level} {what}"] / joins) for what in _HEARD},
        }
        for role, level in _LEVELS.items()
    }
    return {"stores": stores, "joins": joins, "levels": rows, "us": sum(row["us"] for row in rows.values())}


def _find_all(root: Machine) -> None:
    """The root finds the way to each incarnation that it knows."""
    core = root.core
    for entry in list(core.logical_addresses.cache):
        address = queue("till", incarnation_text(entry.found.incarnation))
        ways = core.lookup.targets(Queue(str(address), address, core.custody.paging))
        _expect(ways == frozenset((entry.via,)), True, f"one way to {entry.found.name}")


def _expect(found: int, expected: int, what: str) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {found}, expected {expected}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000, help="names, and stores of the large chain")
    parser.add_argument("--small", type=int, default=200, help="stores of the small chain")
    parser.add_argument("--joins", type=int, default=50, help="stores that join")
    parser.add_argument("--rounds", type=int, default=20, help="of look-ups; the best counts")
    parser.add_argument("--json", type=Path, help="write everything there")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    options = _options(arguments)
    found: dict[str, Any] = {"machine": machine(), "look_ups": look_ups(options.nodes, options.rounds)}
    say(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    for row in found["look_ups"]:
        say(
            f"{options.nodes:>7,} names, {row['what']:<22}: {row['bytes_a_name']:>5} bytes a name,"
            f" {row['ns']:>5} ns, {row['times_dict']:.1f} times a dict"
        )
    found["joining"] = [joining(stores, options.joins) for stores in (options.small, options.nodes)]
    for chain in found["joining"]:
        for level, row in chain["levels"].items():
            say(
                f"a join in {chain['stores']:>7,} stores, {level:<6}: {row['us']:>6,} us, heard"
                f" {row['advisories']} advisories, {row['whereabouts']} whereabouts, {row['bytes']} bytes"
            )
    small, large = found["joining"]
    found["ratio"] = round(large["us"] / max(small["us"], 1), 2)
    times = options.nodes / options.small
    say(f"a join costs {found['ratio']} times as much in the chain that is {times:.0f} times larger")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
