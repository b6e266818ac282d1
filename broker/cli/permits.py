"""`sapwood permits set|unset`: what a child may do from now on."""

from typing import Final

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import note, print_json
from broker.cli.views import permits
from config.errors import did_you_mean

_SHOWN: Final = 5
_KNOWN: Final = 5_000


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
    if changed["state"] == permits.NOT_HERE:
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


def _print_changed(child: Fields, as_json: bool) -> None:
    if as_json:
        print_json(child)
    else:
        permits.change(child)
