"""`sapwood trace`: the way of a message or a channel through the tree hop by hop, or a task as one timeline.

Times are milliseconds since the first event, by clocks that the node has set against each other.
"""

from typing import Final

from broker.cli.errors import FAILED, WRONG_USE, CommandError
from broker.cli.http import ask
from broker.cli.node_api import Fields, NodeApi, part
from broker.cli.output import patience, print_json, print_table, printable, table
from treeconnector.wording import counted

_TIMEOUT: Final = 120.0
_STEPS: Final = ("arrived", "committed", "sent", "acknowledged", "delivered", "dealt_with")
_PLAIN: Final = frozenset((*_STEPS, "entered"))


def show_trace(api: NodeApi, message: str, task: str, channel: str, *, as_json: bool) -> None:
    """Print the story of a message, a task or a channel. Raises `CommandError` if nobody knows it."""
    asked = {"message": message, "task": task, "channel": channel}
    wanted = [(kind, what) for kind, what in asked.items() if what]
    if len(wanted) != 1:
        raise CommandError("expected a MESSAGE-ID, --task TASK or --channel CHANNEL, one of these", WRONG_USE)
    ((kind, what),) = wanted
    with patience(f"asking {api.url} for the way of {kind} {what}"):
        path = f"/api/trace/{kind}/{part(what)}"
        found: Fields = ask(api.url, path, token=api.token, tls=api.tls, timeout=_TIMEOUT)
    known = found.get("hops") or found.get("events")
    if as_json:
        print_json(found)
    elif known:
        _PRINT[kind](found)
    if not known:
        missing = "; ".join(_missing(found))
        raise CommandError(
            f"no node that was asked knows {kind} {what}: the id may be wrong, or it was too long ago"
            f"{f' ({missing})' if missing else ''}",
            FAILED,
        )
    if not as_json:
        print("\n".join(_missing(found)), end="\n" if _missing(found) else "")


def _print_message(found: Fields) -> None:
    hops = found["hops"]
    began = next((event["at"] for event in hops[0]["events"]), "")
    state = "complete" if found.get("complete") else "not complete"
    print(f"message {found['id']} for {found['destination']} · entered at {found['origin'] or '?'} · {state}")
    print(f"milliseconds since {began}")
    made = table("Node", "from", ">arrived", ">committed", ">sent", "to", ">ack", ">delivered", ">dealt with")
    for hop in hops:
        arrived, committed, sent, acknowledged, delivered, dealt_with = (
            _time(hop["ms"].get(step)) for step in _STEPS
        )
        came, to = hop["came"] or _session(hop, "entered"), ", ".join(hop["to"])
        made.add_row(hop["node"], came, arrived, committed, sent, to, acknowledged, delivered, dealt_with)
    print_table(made)
    for hop in hops:
        for event in hop["events"]:
            if event["kind"] not in _PLAIN:
                print(f"{hop['node']}: {event['kind']} at {_time(event['ms'])} ms{_because(event)}")
    _print_clocks(hops)


def _print_clocks(hops: list[Fields]) -> None:
    for hop in hops:
        if hop.get("clock_shifted_s"):
            print(
                f"{hop['node']}: its clock is {-hop['clock_shifted_s']:+.3f} s off, its times are corrected"
            )


def _print_channel(found: Fields) -> None:
    hops = found["hops"]
    state = "complete" if found["complete"] else "not complete"
    way = printable(f"from {found['origin']} to {found['destination']}")
    print(f"channel {found['channel']} {way} · {state}")
    print(f"milliseconds since {hops[0]['events'][0]['at']}")
    made = table("Node", "from", "to", ">opening", ">open", ">ended", "how", ">bytes there", ">back")
    for hop in hops:
        opening, opened, ended = (_time(hop["ms"].get(step)) for step in ("opening", "open", hop["ended"]))
        sizes = str(hop["there"]), str(hop["back"])
        made.add_row(hop["node"], hop["came"], hop["to"], opening, opened, ended, hop["ended"], *sizes)
    print_table(made)
    for hop in hops:
        if hop["reason"]:
            print(f"{hop['node']}: {hop['ended']}: {printable(hop['reason'])}")
    _print_clocks(hops)


def _session(hop: Fields, kind: str) -> str:
    return next((str(event.get("session", "")) for event in hop["events"] if event["kind"] == kind), "")


def _because(event: Fields) -> str:
    why = event.get("reason") or event.get("place") or event.get("neighbour")
    return f": {why}" if why else ""


def _print_task(found: Fields) -> None:
    events = found["events"]
    how_many = counted(len(found["messages"]), "message")
    print(f"task {found['task']} · {how_many} · milliseconds since {events[0]['at']}")
    made = table(">ms", "Node", "What", "Queue", "Message", ">correlation", "With")
    numbers = {message: number for number, message in enumerate(found["messages"], 1)}
    for event in events:
        number = numbers.get(event["message"], 0)
        made.add_row(
            _time(event["ms"]),
            event["node"],
            event["kind"].replace("_", " "),
            event["queue"],
            f"#{number}",
            str(event.get("correlation_id", "")),
            event.get("neighbour") or event.get("session") or event.get("reason") or "",
        )
    print_table(made)
    for message, number in numbers.items():
        print(f"#{number} {message}")


_PRINT: Final = {"message": _print_message, "task": _print_task, "channel": _print_channel}


def _missing(found: Fields) -> list[str]:
    """Who could not be asked, and what that means."""
    lines = [f"no answer from {node}: {found['why'].get(node, '')}" for node in found.get("unreachable", [])]
    lines += [f"refused by {node}: {found['why'].get(node, '')}" for node in found.get("refused", [])]
    lines += [f"{node} does not remember it" for node in found.get("unknown_at", [])]
    if found.get("not_asked"):
        lines.append(f"not looked at: {found['not_asked']} more, nodes or messages")
    return lines


def _time(ms: float | None) -> str:
    return "" if ms is None else f"{ms:.3f}"
