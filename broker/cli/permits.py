"""`sapwood permits …`: what children may do, and what they were refused."""

from typing import Final

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import note, print_json, print_table, table
from broker.cli.queues import say_more
from config.errors import did_you_mean

_NOT_HERE: Final = "unknown"
_SHOWN: Final = 5
_KNOWN: Final = 5_000


def show_permits(api: NodeApi, child: str, node: str, limit: int, *, as_json: bool) -> None:
    """Print what the children of a node may do. Raises `CommandError`."""
    found = api.pages("/api/permits", "children", limit, node=node, child=child)
    if as_json:
        print_json(found)
        return
    if found["granted"]:
        print(f"{found['node']} itself may do what all of these allow:")
        _print_grants(found["granted"])
    if not found["enforced"]:
        print(f"the file of {found['node']} is open: of itself it lets its children do everything")
    for each in found["children"]:
        _print_child(each)
    say_more(found)


def set_permit(
    api: NodeApi,
    child: str,
    consume: list[str] | None,
    send: list[str] | None,
    nodes: list[str] | None,
    node: str,
    *,
    as_json: bool,
) -> None:
    """Say what a child may do. Raises `CommandError`."""
    given = {"consume": consume, "send": send, "nodes": nodes}
    rules = {name: patterns for name, patterns in given.items() if patterns}
    if not rules:
        raise CommandError("nothing to set: give --consume, --send or --nodes", WRONG_USE)
    changed = api.change("POST", "/api/permits", {"child": child, "node": node, **rules})
    _print_changed(changed, as_json)
    if changed["state"] == _NOT_HERE:
        found = api.pages("/api/permits", "children", _KNOWN, node=node)
        note(f"sapwood: {_who_is_not_here(found, child)}")


def _who_is_not_here(found: Fields, child: str) -> str:
    """What to say of permits for a child that nobody knows: it may come yet, or be mistyped."""
    others = [each["name"] for each in found["children"] if each["name"] != child]
    near = did_you_mean(child, others, _SHOWN)
    known = "" if near else f"; it knows {', '.join(others[:_SHOWN])}" if others else "; it has none at all"
    more = f" and {len(others) - _SHOWN} more" if not near and len(others) > _SHOWN else ""
    return (
        f"{found['node']} has no child {child!r} yet{near}{known}{more}\n  what is set counts when it comes:"
        f" `sapwood permits show` lists it till then, `sapwood permits unset {child}` takes it back"
    )


def unset_permit(api: NodeApi, child: str, node: str, *, as_json: bool) -> None:
    """Let the file say again what a child may do. Raises `CommandError`."""
    _print_changed(api.change("DELETE", "/api/permits", {"child": child, "node": node}), as_json)


def reload_permits(api: NodeApi, node: str, *, as_json: bool) -> None:
    """Let a node read its file again. Raises `CommandError`."""
    found = api.change("POST", "/api/permits/reload", node=node)
    if as_json:
        print_json(found)
        return
    away = f"; turned away: {', '.join(found['turned_away'])}" if found["turned_away"] else ""
    print(f"{found['node']} has read its file again{away}")


def _print_changed(child: Fields, as_json: bool) -> None:
    if as_json:
        print_json(child)
    else:
        _print_child(child)


def _print_child(child: Fields) -> None:
    how = ", set by an operator" if child["set"] else ""
    state = "not here yet" if child["state"] == _NOT_HERE else child["state"]
    print(f"{child['name']} ({state}{how})")
    if child["grants"]:
        _print_grants(child["grants"])
    else:
        print("  may do everything")
    if child["refused"]:
        print(f"  refused {child['refused']} times; lately:")
    for refusal in child["refusals"]:
        what = f", the last: {refusal['what']}" if refusal["what"] else ""
        print(f"    {refusal['times']} x {refusal['rule']}{what}")


def _print_grants(grants: list[Fields]) -> None:
    made = table("By", "Consume", "Send", "Nodes below")
    for grant in grants:
        made.add_row(grant["by"], *("\n".join(grant[name]) for name in ("consume", "send", "nodes")))
    print_table(made)
