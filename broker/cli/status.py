"""`sapwood status`: a running node as it says of itself, for people or as JSON.

Law: what a node does not say is left out, so that a newer program can look at an older node.
"""

from typing import Final

from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import print_json, print_table, table
from treeconnector.wording import counted

LISTED: Final = 20
_OF_NAMES: Final = {
    "other_ways": "comes another way than the tree's, too",
    "troubles": "is not taken from it",
    "denied": "is denied to the node, with code",
}
_SHOWN: Final = 3


def show_status(api: NodeApi, *, as_json: bool) -> None:
    """Print the status of a node. Raises `CommandError`."""
    found = api.get("/api/status")
    if as_json:
        print_json(found)
        return
    print("\n".join(summary(found)))
    _print_links(found)
    _print_queues(found)


def summary(found: Fields) -> list[str]:
    """The node in a few lines."""
    chain = " < ".join(str(name) for name in found.get("chain", []))
    lines = [
        f"{found.get('name')} · {found.get('role')} of tree {found.get('tree')} · {chain}",
        f"up {duration(found.get('uptime_s', 0))} · start {found.get('start')} · process {found.get('pid')}"
        f" · {readiness(found)}",
    ]
    store, dead = found.get("store", {}), found.get("dead", {})
    lines.append(
        f"store {size(store.get('used_bytes', 0))} used, {size(store.get('disk_free', 0))} free"
        f" · {counted(found.get('sessions', 0), 'session')}"
        f" · {counted(dead.get('messages', 0), 'dead letter')}"
    )
    if found.get("below", {}).get("nodes"):
        lines.append(below_line(found["below"]))
    reasons = ", ".join(f"{count} {reason}" for reason, count in dead.get("reasons", {}).items())
    warnings = [f"! {warning}" for warning in found.get("warnings", [])]
    lines += _site_broker(found.get("site_broker", {}))
    lines += [_link_broker(broker) for broker in found.get("link_brokers", [])]
    alarms = [_alarm(each) for each in found.get("alarms", [])]
    return [*lines, *([f"dead letters: {reasons}"] if reasons else []), *alarms, *warnings]


def _alarm(alarm: Fields) -> str:
    now = f", now {alarm['now']}" if alarm.get("now") else ""
    return (
        f"! alarm {alarm.get('name')} ({alarm.get('severity')}) since {alarm.get('since')}:"
        f" {alarm.get('condition')}{now}"
    )


def readiness(found: Fields) -> str:
    """Does it take messages, and is it part of its tree?"""
    if not found.get("ready", True):
        return f"NOT READY {found.get('refusing', '')}"
    return "DISCONNECTED: no core is linked" if found.get("disconnected") else "ready"


def below_line(found: Fields) -> str:
    """How many nodes are below, how many of them are down, and for how long."""
    nodes = found["nodes"]
    if not found["down"]:
        return f"{counted(nodes, 'node')} below, none down" if nodes else "no node below"
    below = f"{found['down']} of {counted(nodes, 'node')} below down"
    return f"{below}, the longest for {duration(found['down_since_s'])}"


def _site_broker(broker: Fields) -> list[str]:
    """Of a broker beside the node: how it stands, and what of its consumers is not known."""
    if "taken" not in broker:
        return []
    error = f" · {broker['error']}" if broker.get("error") and broker.get("state") != "running" else ""
    read = len(broker.get("consumers", [])) + broker.get("consumers_more", 0)
    line = (
        f"site broker {broker.get('uri')}: {broker.get('state')} · {broker.get('broker')} ·"
        f" {counted(read, 'destination')} read ·"
        f" {counted(broker.get('waiting', 0), 'message')} waiting for it{error}"
    )
    lines = [line, f"consumers there: {broker['discovery']}"] if broker.get("discovery") else [line]
    if broker.get("blocked"):
        lines.append(f"! the site broker takes no messages now: {broker['blocked']}")
    lines += [f"! the site broker lacks something: {text}" for text in broker.get("lacks", {}).values()]
    if broker.get("held"):
        names = ", ".join(broker.get("held_for", [])[:_SHOWN])
        lines.append(f"! {counted(broker['held'], 'message')} taken from it find no room here: {names}")
    for key, what in _OF_NAMES.items():
        lines += [f"! {name} {what}: {text}" for name, text in _first(broker.get(key, {}))]
    return lines


def _first(texts: Fields) -> list[tuple[str, str]]:
    return list(texts.items())[:_SHOWN]


def _link_broker(broker: Fields) -> str:
    error = f" · {broker['error']}" if broker.get("error") else ""
    links = counted(broker.get("links", 0), "link")
    return f"children at {broker.get('uri')}: {broker.get('state')}, {links}{error}"


def _print_links(found: Fields) -> None:
    parents, mesh, children = _parents(found), found.get("mesh", []), found.get("children", [])
    if not (parents or mesh or children):
        return
    made = table("Link", "to", "State", ">since", ">waiting", "Why")
    for relation, link in [
        *(("parent", parent) for parent in parents),
        *(("mesh", other) for other in mesh),
        *(("child", child) for child in children),
    ]:
        since, why = link.get("since_s"), link.get("blocked") or link.get("error") or _dialling(link)
        made.add_row(
            relation,
            link.get("name", ""),
            link.get("state", ""),
            duration(since) if since is not None else "",
            str(link.get("waiting", link.get("messages", ""))),
            why,
        )
    print_table(made)


def _parents(found: Fields) -> list[Fields]:
    """All of a mesh, or the one."""
    parent = found.get("parent")
    return found.get("parents") or ([parent] if parent else [])


def _dialling(link: Fields) -> str:
    return str(link.get("dialling", {}).get("error", "")) if link.get("state") != "running" else ""


def _print_queues(found: Fields) -> None:
    queues = [queue for queue in found.get("queues", []) if queue.get("messages") or queue.get("readers")]
    if not queues:
        return
    made = table("Queue", ">messages", ">bytes", ">oldest", ">readers", "Goes to")
    for queue in queues[:LISTED]:
        made.add_row(
            queue["name"],
            str(queue.get("messages", 0)),
            size(queue.get("bytes", 0)),
            duration(queue.get("oldest_s", 0)),
            str(queue.get("readers", 0)),
            ", ".join(queue.get("targets", [])),
        )
    print_table(made)
    if len(queues) > LISTED:
        print(f"and {len(queues) - LISTED} more (--json lists all)")


def duration(seconds: float) -> str:
    """A time for people: the two largest units, as 3h 5m."""
    rest = int(seconds)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def size(count: float) -> str:
    """Bytes for people, as 3.4 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
