"""What a simulated chain did and cost, as one value for programs and as text for people."""

from collections import Counter
from typing import Any, Final

from sapwood.protocol.destinations import Destination, Kind
from simulation.advisory_log import Counts
from simulation.deployment import Deployment
from simulation.machine import Machine

_SHARES: Final = (("p50_s", 0.5), ("p99_s", 0.99))


class Deliveries:
    """Messages that were delivered, and how long each was under way, to two digits."""

    def __init__(self) -> None:
        self.count = 0
        self._seconds: Counter[float] = Counter()

    def __repr__(self) -> str:
        return f"<Deliveries {self.count}>"

    def __call__(self, destination: Destination, number: int, seconds: float) -> None:
        self.count += 1
        self._seconds[float(f"{max(seconds, 0.0):.1e}")] += 1

    def quantiles(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, share in _SHARES:
            left = share * self.count
            for seconds, count in sorted(self._seconds.items()):
                left -= count
                if left <= 0:
                    found[name] = seconds
                    break
        return found


def spools(machines: list[Machine], depths: dict[str, int]) -> dict[str, Any]:
    """The most bytes of messages that a node ever kept: at which, and at any of each depth."""
    fullest = max(machines, key=lambda machine: machine.peak_bytes)
    by_depth: dict[int, int] = {}
    for machine in machines:
        depth = depths[machine.name]
        by_depth[depth] = max(by_depth.get(depth, 0), machine.peak_bytes)
    return {
        "peak": fullest.peak_bytes,
        "peak_node": fullest.name if fullest.peak_bytes else "",
        "peak_by_depth": {str(depth): kept for depth, kept in sorted(by_depth.items())},
        "at_end": sum(machine.kept_bytes for machine in machines),
    }


def advisories(counts: Counts) -> dict[str, Any]:
    """Consumer advisories and, apart, domain routes: how many were received, and where."""
    found: dict[str, Any] = {"received": 0, "domain": 0, "bytes": counts.bytes}
    by: dict[str, Counter[str]] = {"op": Counter(), "direction": Counter(), "depth": Counter()}
    for (kind, op, direction, depth), count in sorted(counts.advisories.items(), key=lambda item: item[0][3]):
        if kind == Kind.DOMAIN:
            found["domain"] += count
            continue
        found["received"] += count
        by["op"][op] += count
        by["direction"][direction] += count
        by["depth"][str(depth)] += count
    return found | {f"by_{name}": dict(counter) for name, counter in by.items()}


def messages(machines: list[Machine], deliveries: Deliveries) -> dict[str, Any]:
    """What was sent and what became of it. `refused`: by their node, such as what its permit does not let it
    send; `not_sent`: it was down. `waiting`: in custody at the end; `dead`: dead letters."""
    applications = [machine.application for machine in machines if machine.application is not None]
    waiting = dead = 0
    for machine in machines:
        if machine.running:
            for place in machine.core.custody.queues.values():
                if place is machine.core.custody.dead:
                    dead += place.messages
                elif place.messages:
                    waiting += place.messages
    return {
        "sent": sum(each.sent for each in applications),
        "refused": sum(each.refused for each in applications),
        "not_sent": sum(each.not_sent for each in applications),
        "delivered": deliveries.count,
        "waiting": waiting,
        "dead": dead,
        **deliveries.quantiles(),
    }


def routes(machines: list[Machine]) -> dict[str, int]:
    """Routes held at the end, by role."""
    found: Counter[str] = Counter()
    for machine in machines:
        if machine.running:
            found[machine.role] += len(machine.core.table)
    return dict(found)


def nodes(deployment: Deployment) -> dict[str, int]:
    return dict(Counter(place.role for place in deployment.places))


def as_text(found: dict[str, Any]) -> str:
    """The same for people."""
    told, sent, spools, cost = found["advisories"], found["messages"], found["spools"], found["cost"]
    roles = ", ".join(f"{count:,} {role}" for role, count in sorted(found["nodes"].items()))
    lines = [
        f"tree {found['tree']}: {roles}; {found['hours']:g} hours, seed {found['seed']}",
        "",
        f"consumer events      {found['consumer_events']:>14,}",
        f"advisories received  {told['received']:>14,}   {told['bytes']:,} bytes, domain routes included",
        *(f"  at depth {depth:<10} {count:>14,}" for depth, count in told["by_depth"].items()),
        f"domain advisories    {told['domain']:>14,}",
        f"links up / down      {found['links']['up']:>14,} / {found['links']['down']:,}",
        f"bytes on all lines   {found['line_bytes']:>14,}",
    ]
    if sent["sent"] or sent["refused"] or sent["not_sent"]:
        lines += [
            f"messages sent        {sent['sent']:>14,}   {sent['refused']:,} refused by their node,"
            f" {sent['not_sent']:,} not sent: it was down",
            f"  delivered          {sent['delivered']:>14,}   half within {sent.get('p50_s', 0):g} s,"
            f" 99% within {sent.get('p99_s', 0):g} s",
            f"  waiting, dead      {sent['waiting']:>14,}   {sent['dead']:,} dead letters",
            f"largest spool        {spools['peak']:>14,} bytes at {spools['peak_node'] or 'no node'}",
        ]
    lines += [
        "",
        f"{cost['seconds']:.1f} s, {cost['processor_seconds']:.1f} s of them at work,"
        f" for {cost['events']:,} events ({cost['event_us']:.0f} us each),"
        f" {cost['memory'] / 1e6:,.0f} MB of memory at most",
    ]
    return "\n".join(lines)
