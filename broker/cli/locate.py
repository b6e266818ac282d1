"""`sapwood node locate`: where a running node finds its parent, or who could be one on this network."""

import asyncio
from collections.abc import Sequence
from typing import Any

from bridges.dns.errors import LocationError
from broker.cli.errors import FAILED, CommandError
from broker.cli.options import OperatorOptions
from broker.cli.output import patience, print_json
from broker.location.lan import asking

_TIMEOUT = 5.0


def locate(asked: OperatorOptions) -> None:
    """Let a node look now, and print what it found. Raises `CommandError`."""
    found = asked.api.change("POST", "/api/node/locate")
    if asked.json:
        print_json(found)
        return
    for domain in found["location"]:
        print(f"srv://{domain['domain']}: {domain['error'] or 'looked up'}")
        for way in domain["ways"]:
            lapsed = ", not renewed in its lease" if way["lapsed"] else ""
            place = f"priority {way['priority']}, weight {way['weight']}"
            print(f"  {way['uri']}  {way['node']} ({place}{lapsed})")
        for note in domain["notes"]:
            print(f"  ! {note}")


def show_lan(lines: Sequence[str], *, as_json: bool) -> None:
    """Ask the network of this machine, and print who says that it could be a parent. Nobody has proved it."""
    try:
        with patience("asking this network"):
            answer = asyncio.run(asking(lines)("local", servers=(), timeout=_TIMEOUT))
    except LocationError as error:
        raise CommandError(str(error), FAILED) from None
    found: list[dict[str, Any]] = [
        {"uri": each.uri, "node": each.node, "tree": each.tree} for each in answer.places
    ]
    if as_json:
        print_json({"parents": found, "notes": list(answer.notes)})
        return
    for each in found:
        print(f"{each['uri']}  {each['node'] or 'a node'} of tree {each['tree'] or '?'}")
    for note in answer.notes:
        print(f"! {note}")
