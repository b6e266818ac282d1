"""`sapwood queues`: what waits at a node, or in one queue."""

from broker.cli.node_api import Fields, NodeApi, part
from broker.cli.output import print_json, print_table, say_more, table
from broker.cli.status import duration, size
from treeconnector.wording import counted

_PREVIEW = 40


def show_queues(api: NodeApi, search: str, sort: str, limit: int, *, as_json: bool) -> None:
    """Print the node's queues. Raises `CommandError`."""
    found = api.pages("/api/queues", "queues", limit, search=search, sort=sort)
    if as_json:
        print_json(found)
        return
    made = table(
        "Queue", ">messages", ">bytes", ">oldest", ">readers", ">in/s", ">out/s", ">latency", "Goes to"
    )
    for queue in found["queues"]:
        made.add_row(
            queue["name"],
            str(queue["messages"]),
            size(queue["bytes"]),
            duration(queue["oldest_s"]) if queue["messages"] else "",
            str(queue["readers"]),
            f"{queue['in_per_s']:.1f}",
            f"{queue['out_per_s']:.1f}",
            seconds(queue["latency_s"]),
            ", ".join(queue["targets"]),
        )
    print_table(made)
    say_more(found)


def show_queue(api: NodeApi, name: str, limit: int, *, as_json: bool) -> None:
    """Print one queue, who reads it, and its first messages. Raises `CommandError`."""
    path = f"/api/queues/{part(name)}"
    queue = api.get(path)
    contents = api.pages(f"{path}/messages", "messages", limit)
    if as_json:
        print_json({"queue": queue, "messages": contents["messages"], "more": contents["more"]})
        return
    print("\n".join(_summary(queue)))
    made = table("Message", ">age", ">size", "With", "Correlation", "Payload")
    for message in contents["messages"]:
        made.add_row(
            message["id"],
            duration(message["age_s"]),
            str(message["size"]),
            message["session"] or ("a reader" if message["given"] else ""),
            "" if message["correlation_id"] is None else str(message["correlation_id"]),
            payload(message),
        )
    print_table(made)
    if contents["more"]:
        print(f"and more: the first {len(contents['messages'])} are shown (--limit)")


def _summary(queue: Fields) -> list[str]:
    kind = "transient" if queue["transient"] else "created here" if queue["created"] else "passing through"
    lines = [
        f"{queue['name']} · {kind} · {counted(queue['messages'], 'message')}, {size(queue['bytes'])},"
        f" {queue['given']} with readers",
        f"{queue['in_total']} came in ({queue['in_per_s']:.1f}/s), {queue['out_total']} went"
        f" ({queue['out_per_s']:.1f}/s) since the start",
    ]
    if latency := queue["latency"]:
        lines.append(f"{latency['count']} acknowledged, after {seconds(latency['mean_s'])} on average")
    return lines + list(map(_reader, queue["reading"]))


def _reader(reader: Fields) -> str:
    most = f" of {reader['credit']}" if reader["credit"] else ""
    who = f"read by {reader['session']} {reader['address'] or 'by transfer'}"
    return f"{who}: {reader['outstanding']}{most} not acknowledged"


def payload(message: Fields) -> str:
    """A message's beginning on one line."""
    if message["unreadable"]:
        return f"(unreadable: {message['unreadable']})"
    text = message["preview"]
    if message["encoding"] == "base64":
        text = f"base64:{text}"
    shown = "".join(letter if letter.isprintable() else "·" for letter in text[:_PREVIEW])
    return f"{shown}…" if message["truncated"] or len(text) > _PREVIEW else shown


def seconds(value: float | None) -> str:
    """A short time for people."""
    if value is None:
        return ""
    if value < 1:
        return f"{value * 1000:.1f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)
