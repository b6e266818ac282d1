"""What children may do, and what they were refused."""

from typing import Final

from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import note, print_table, say_more, table
from config.errors import did_you_mean
from treeconnector.wording import counted

_NOT_HERE: Final = "unknown"
_SHOWN: Final = 5
_KNOWN: Final = 5_000


def show(found: Fields) -> None:
    """Print what the children of a node may do."""
    if found["granted"]:
        print(f"{found['node']} itself may do what all of these allow:")
        _print_grants(found["granted"])
    if not found["enforced"]:
        print(f"the file of {found['node']} is open: of itself it lets its children do everything")
    for each in found["children"]:
        change(each)
    say_more(found)


def change(child: Fields) -> None:
    """One child."""
    how = ", set by an operator" if child["set"] else ""
    state = "not here yet" if child["state"] == _NOT_HERE else child["state"]
    print(f"{child['name']} ({state}{how})")
    if child["grants"]:
        _print_grants(child["grants"])
    else:
        print("  may do everything")
    if child["refused"]:
        print(f"  refused {counted(child['refused'], 'time')}; lately:")
    for refusal in child["refusals"]:
        what = f", the last: {refusal['what']}" if refusal["what"] else ""
        print(f"    {refusal['times']} x {refusal['rule']}{what}")


unset = change


def change_wrong(given: Fields) -> str:
    """Something is set."""
    if any(given[name] for name in ("consume", "send", "nodes", "opens", "serves")):
        return ""
    return "nothing to set: give --consume, --send, --nodes, --opens or --serves"


def change_note(found: Fields, given: Fields, api: NodeApi) -> None:
    """A child that nobody knows may come yet, or be mistyped."""
    if found["state"] == _NOT_HERE:
        known = api.pages("/api/permits", "children", _KNOWN, node=given["node"])
        note(f"sapwood: {_who_is_not_here(known, given['child'])}")


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


def _print_grants(grants: list[Fields]) -> None:
    made = table("By", "Consume", "Send", "Nodes below", "Opens", "Serves")
    for grant in grants:
        lists = (grant[name] for name in ("consume", "send", "nodes", "opens", "serves"))
        made.add_row(grant["by"], *map("\n".join, lists))
    print_table(made)


def reload(found: Fields) -> None:
    """A file that was read again."""
    away = f"; turned away: {', '.join(found['turned_away'])}" if found["turned_away"] else ""
    print(f"{found['node']} has read its file again{away}")
    if waiting := found.get("needs_restart"):  # an older node does not say
        print(f"not before its next start: {', '.join(waiting)}")
