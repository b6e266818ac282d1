"""Cells, and the way to one."""

from broker.cli.node_api import Fields
from broker.cli.output import print_table, say_more, table


def cells(found: Fields) -> None:
    """Print a node's cells."""
    made = table("Cell", "What it is", ">readers", ">messages", "also read behind")
    for cell in found["cells"]:
        name = f"{cell['name']}@{found['node']}"
        what = "the node's" if cell["own"] else "queue"
        figures = str(cell["readers"]), str(cell["messages"])
        made.add_row(name, what, *figures, ", ".join(cell["also"]))
    print_table(made)
    say_more(found)


def ping(found: Fields) -> None:
    """A cell that is there."""
    if found["here"]:
        print(f"{found['cell']}@{found['node']} is there: {found['ms']:.1f} ms, {found['at']} by its clock")


def ping_failed(found: Fields) -> str:
    """Nobody reads it."""
    if found["here"]:
        return ""
    return f"{found['node']} answers in {found['ms']:.1f} ms, but nobody reads {found['cell']!r} there"


def traceroute(found: Fields) -> None:
    """The way hop by hop."""
    made = table(">", "Node", ">ms", "its clock", "by", "goes to", "as")
    for number, hop in enumerate(found["hops"], 1):
        ways = [f"{name} (down)" if name in hop["down"] else name for name in hop["gateways"]]
        made.add_row(
            str(number),
            hop["node"],
            "*" if hop["ms"] is None else f"{hop['ms']:.1f}",
            hop["at"] or "",
            hop["how"] or "no answer",
            ", ".join(ways),
            hop["address"],
        )
    print_table(made)


def traceroute_failed(found: Fields, given: Fields) -> str:
    """The way does not end where the cell is."""
    if found["complete"]:
        return ""
    return f"the way to {given['address']} ends at {found['hops'][-1]['node']}: {found['why']}"
