"""`sapwood follow`: what happens to messages at a node, a line each, until Ctrl-C."""

import sys
from typing import Any

from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import note, print_json, printable
from treeconnector.wording import counted


def follow(api: NodeApi, *, as_json: bool, **wanted: Any) -> None:
    """Print events as they come. Ends with Ctrl-C or the node. Raises `CommandError`."""
    if sys.stderr.isatty():
        note(f"following messages at {api.url}, Ctrl-C ends it …")
    try:
        for event in api.stream("/api/follow", **wanted):
            if as_json:
                print_json(event)
            else:
                print(line(event), flush=True)
    except KeyboardInterrupt:
        return


def line(event: Fields) -> str:
    """One event for people."""
    if event["event"] == "dropped" and "destination" not in event:
        lost = counted(event["dropped"], "event", "was", "were")
        return f"… {lost} lost: they came faster than they were read"
    who = event["session"] or event["peer"] or ""
    parts = [
        event["at"][11:23],
        f"{event['event']:12}",
        event["destination"],
        event["id"] or "",
        who,
        event["reason"],
        "" if event["correlation_id"] is None else f"correlation {event['correlation_id']}",
        f"task {event['task_id']}" if event["task_id"] else "",
    ]
    text = " ".join(each for each in parts if each)
    if event["payload"] is not None:
        shown = event["payload"] if event["encoding"] == "utf-8" else f"base64:{event['payload']}"
        text += f"\n    {shown}"
    return printable(text)
