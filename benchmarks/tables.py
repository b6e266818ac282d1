"""The tables of the page of figures, made of what each benchmark found."""

from collections.abc import Iterable
from statistics import median, median_low
from typing import Any

from benchmarks import pages

Row = dict[str, Any]


def throughput(found: Row) -> str:
    """Of `throughput`: each system's rate, and ours as a multiple of it."""
    rows = [row for row in found["rows"] if "error" not in row]
    ours = {(row["direction"], row["destinations"]): row for row in rows if row["system"] == "sapwood"}
    head = (
        "way | destinations | system | messages/s | ours, times | bytes/message leaf-branch | branch-root"
        " | CPU of three brokers, us/message"
    )
    return pages.table(head, (_rate(row, ours[row["direction"], row["destinations"]]) for row in rows), 3)


def _rate(row: Row, ours: Row) -> Iterable[object]:
    cpu = sum(used for name, used in row["cpu_us"].items() if name not in ("producer", "consumer"))
    times = "" if row is ours else f"{ours['rate'] / row['rate']:.1f}"
    way, destinations = row["direction"], f"{row['destinations']:,}"
    return way, destinations, row["system"], f"{row['rate']:,}", times, *row["bytes"].values(), f"{cpu:.1f}"


def peers(found: Row) -> str:
    """Of `peers`."""
    head = "joined by | messages/s | bytes/message leaf-branch | branch-root | CPU us/message | lost | twice"
    rows = (row for row in found["rows"] if "error" not in row)
    return pages.table(head, map(_site, rows))


def _site(row: Row) -> Iterable[object]:
    kept = (row[key] for key in ("cpu_us", "lost", "duplicated"))
    return row["system"], f"{row['rate']:,}", *row["bytes"].values(), *kept


def switch(found: Row) -> str:
    """Of `switch`: rates of the runs without accounts, shares of those with them."""
    shares = {(row["way"], row["clients"]): row["shares"] for row in found["rows"] if "shares" in row}
    head = "way | clients | cycles/s | p50 ms | p99 ms | node, us/cycle | of it HTTP | switch | SQLite | rest"
    rows = (row for row in found["rows"] if "shares" not in row)
    return pages.table(head, (_cycle(row, shares[row["way"], row["clients"]]) for row in rows))


def _cycle(row: Row, shares: Row) -> Iterable[object]:
    late = (f"{row['steps']['all'][key]:.2f}" for key in ("p50_ms", "p99_ms"))
    parts = (f"{share:.0%}" for share in shares.values())
    return row["way"], row["clients"], f"{row['rate']:,}", *late, row["node_cpu_us"], *parts


def footprint(found: Row) -> str:
    head = "process | CPU until linked, s | resident, MiB | proportional | private | CPU at rest, ms/s"
    return pages.table(
        head,
        (
            (
                name,
                f"{row['cpu_s']:.2f}",
                *(f"{row[key]:.1f}" for key in ("rss", "pss", "private", "rest_ms")),
            )
            for name, row in found["figures"].items()
        ),
    )


def names(found: Row) -> str:
    looks = ((row["what"], row["bytes_a_name"], row["ns"], row["times_dict"]) for row in found["look_ups"])
    joins = (
        (f"{chain['stores']:,} stores", *(f"{chain['levels'][level]['us']:,}" for level in chain["levels"]))
        for chain in found["joining"]
    )
    return "\n\n".join(
        (
            pages.table("look-up | bytes a name | ns | times the dict's", looks),
            pages.table("a join in a chain of | store, us | region, us | root, us", joins),
        )
    )


def thousand(found: Row) -> str:
    """Of `thousand`: each figure under the words that it is said with."""
    return pages.table("what | found", ((text, found[name]) for name, text in found["words"].items()))


def sessions(found: Row) -> str:
    head = "subscriptions | transfer, us | create and subscribe, us | longest step of close, us"
    return pages.table(head, ([f"{figure:,.0f}" for figure in row] for row in found["rows"]))


def door(found: Row) -> str:
    """Of `door`: the pairs of each system as least, middle and most."""
    systems = dict.fromkeys(row["system"] for row in found["rows"])
    head = "server | messages/s | CPU of the server, us/message | lost | twice"
    return pages.table(head, (_door(name, found["rows"]) for name in systems))


def _door(system: str, rows: list[Row]) -> Iterable[object]:
    mine = [row for row in rows if row["system"] == system]
    yield system
    yield _spread([row["rate"] for row in mine], ",")
    yield _spread([row["cpu_us"] for row in mine], ".1f")
    yield from (sum(row[key] for row in mine) for key in ("lost", "duplicated"))


def _spread(figures: list[float], form: str) -> str:
    """The middle one, and the least and the most in brackets."""
    least, most = min(figures), max(figures)
    return f"{median_low(figures):{form}} ({least:{form}} to {most:{form}})"


def requests(found: Row) -> str:
    names = ("form", "p50_ms", "p99_ms", "tree_p50_ms", "tree_p99_ms", "p50_times", "p99_times")
    head = "request | p50 ms | p99 ms | round trip, p50 ms | p99 ms | p50, round trips | p99, round trips"
    return pages.table(head, ([row[name] for name in names] for row in found["rows"]))


def bombs(found: Row) -> str:
    head = "thrown | p50 ms | p99 ms | worst ms | MiB/s thrown | links lost"
    return pages.table(head, map(_bombed, found["rows"]))


def _bombed(row: Row) -> Iterable[object]:
    names = ("kind", "p50_ms", "p99_ms", "worst_ms", "mib_per_s")
    return *(row[name] for name in names), len(row["links_lost"])


def channels(found: Row) -> str:
    """Of `channels`: a table for each thing that was measured."""
    shown = {"throughput": _carried, "latency": _beside, "many": _at_once, "slow": _unread}
    return "\n\n".join(shown[row["what"]](row) for row in found["rows"])


def _carried(row: Row) -> str:
    head = "two relays, MB/s | channel, MB/s | share | CPU of root, s/GB | branch | leaf | forward"
    return pages.table(head, [(*row["mb_s"].values(), row["share"], *row["cpu_s_gb"].values())], 0)


def _beside(row: Row) -> str:
    ways = ((way, row[way]["p50_ms"], row[way]["p99_ms"]) for way in ("idle", "full"))
    table = pages.table("line | messages, p50 ms | p99 ms", ways)
    return f"{table}\n\nThe p99 beside a channel is {row['share']} times that of the idle line."


def _at_once(row: Row) -> str:
    return _resident(f"with {max(row['open'].values()):,} channels, all answered in {row['seconds']} s", row)


def _unread(row: Row) -> str:
    waiting = (f"{size / 2**20:.0f}" for size in row["waiting"].values())
    return _resident(f"with {row['readers']} that read nothing", row, [("of it waits for them", *waiting)])


def _resident(what: str, row: Row, more: Iterable[Iterable[object]] = ()) -> str:
    before, then = row["mib_before"], row["mib"]
    rows = [("before", *before.values()), (what, *then.values()), *more]
    return pages.table(f"MiB resident | {' | '.join(before)}", rows)


def waiting(found: Row) -> str:
    rows = ((name, f"{figure:,}") for name, figure in found["figures"].items())
    return pages.table("what | found", rows)


def mesh(found: Row) -> str:
    """Of `mesh`: the counts of all messages, and the longest pause of each trouble."""
    head = "nodes | messages confirmed | came twice and said so | out of order | repetitions dropped"
    names = ("nodes", "messages", "came_twice_and_marked", "out_of_order", "duplicates_dropped")
    counts = pages.table(head, [[f"{found[name]:,}" for name in names]], 0)
    pauses = pages.table("trouble | nothing came to anybody for, s", found["longest_pause_s"].items())
    return f"{counts}\n\n{pauses}"


def audit(found: Row) -> str:
    phases = found["phases"]
    names = ("yardstick", "all columns, hashed", "peer: sums by DuckDB", "audit", "audit, once more")
    rows = ((name, phases[name]["seconds"], phases[name]["cpu"]) for name in names)
    table = pages.table("of the same log | s | CPU, s", rows)
    peak = " and ".join(f"{size:,} MiB of {name}" for name, size in found["peak_mib"].items())
    return f"{table}\n\n{found['rows']:,} rows; at most {peak}."


def what_if(found: Row) -> str:
    head = "stores | s | MiB at most | advisories of a tree | of leaf nodes"
    names = ("stores", "seconds", "peak_mib", "tree", "leaf_nodes")
    return pages.table(head, ([f"{row[name]:,}" for name in names] for row in found["sizes"]))


def simulation(found: Row) -> str:
    """Of `simulation`: chains at rest, and the day."""
    names = ("stores", "interests", "bytes_a_node", "us_a_node")
    rest = pages.table(
        "stores at rest | consumers each | bytes a node | us a node",
        ([f"{row[name]:,}" for name in names] for row in found["growth"]),
    )
    names = ("stores", "consumer_events", "advisories", "seconds", "us_an_event")
    head = "stores for a day | consumers that came or went | advisories | s | us an event | MB"
    day = (*(f"{found['day'][name]:,}" for name in names), f"{found['day']['bytes'] / 1e6:,.0f}")
    return f"{rest}\n\n{pages.table(head, [day])}"


def calls(found: Row) -> str:
    ways = dict.fromkeys(row["way"] for row in found["rows"])
    cost = {way: median(row["cpu_us"] for row in found["rows"] if row["way"] == way) for way in ways}
    rows = ((way, f"{us:,.0f}", f"{us / cost['plain']:.2f}") for way, us in cost.items())
    return pages.table("calls | CPU of both sides, us/call | times a plain one's", rows)
