"""What one look is like in a terminal of any size: the most important columns stay when it is narrow."""

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from broker.cli.status import below_line, duration, readiness, size
from broker.cli.top.look import Fields, LinkLine, Look, QueueLine, printable
from broker.cli.views.below import state
from treeconnector.wording import counted

NARROW: Final = 60
MIDDLE: Final = 90
_FEWEST_ROWS: Final = 2
_AROUND: Final = 5  # lines of a table besides its rows
_ARROWS: Final = {"parent": "^ ", "mesh": "= "}
_COLOURS: Final = {"running": "green", "blocked": "yellow", "connecting": "yellow", "down": "red"}
_KEYS: Final = "q quit · s sort queues by {sort} · space {hold} · + - every {interval:g} s"
_SHORT_KEYS: Final = "q quit · s {sort} · {interval:g} s"


def frame(look: Look, width: int, height: int | None = None, footer: str = "") -> RenderableType:
    """Everything. `height`: rows of the terminal; None = as many as it needs."""
    parts: list[RenderableType] = [*_head(look, width)]
    links, queues = _shares(look, None if height is None else height - len(parts) - bool(footer))
    if look.links:
        parts.append(_links(look, width, links))
    if look.below:
        parts.append(_down(look, width, queues))
    elif look.queues:
        parts.append(_queues(look, width, queues))
    if footer:
        parts.append(_cut(footer, width, "dim"))
    return Group(*parts)


def _shares(look: Look, height: int | None) -> tuple[int, int]:
    """How many links and queues are shown. Half of the rows each; what one does not need the other has."""
    links, queues = len(look.links), len(look.below["below"] if look.below else look.queues)
    if height is None:
        return links, queues
    room = height - _AROUND * (bool(links) + bool(queues))
    most = max(room // 2, room - queues, _FEWEST_ROWS)
    return most, max(room - min(links, most), _FEWEST_ROWS)


def keys_line(width: int, sort: str, held: bool, interval: float) -> str:
    pattern = _KEYS if width >= MIDDLE else _SHORT_KEYS
    return pattern.format(sort=sort, hold="go on" if held else "hold", interval=interval)


def _head(look: Look, width: int) -> list[Text]:
    found = look.found
    chain = " < ".join(printable(str(name)) for name in found.get("chain", []))
    well = found.get("ready", True) and not found.get("disconnected")
    state, up = printable(readiness(found)), duration(found.get("uptime_s", 0))
    store, dead, spool = found.get("store", {}), found.get("dead", {}), found.get("spool", {})
    lines = [
        _cut(
            f"{printable(str(found.get('name')))} · {found.get('role')} of {found.get('tree')}", width, "bold"
        ),
        _cut(f"{chain}", width, "cyan"),
        _cut(
            f"{state} · up {up} · {counted(found.get('sessions', 0), 'session')}",
            width,
            "" if well else "bold red",
        ),
        _cut(_flow(look.rates), width),
        _cut(
            f"disk {size(store.get('disk_free', 0))} free · store {size(store.get('used_bytes', 0))}"
            f" · commit {1000 * store.get('commit_s', 0):.1f} ms"
            f" · spool {size(sum(spool.values()))}",
            width,
        ),
    ]
    lines += _wrong(look, width, dead)
    return lines


def _wrong(look: Look, width: int, dead: Fields) -> list[Text]:
    """What somebody should look at."""
    lines = []
    if (below := look.found.get("below", {})).get("nodes"):
        lines.append(_cut(below_line(below), width, "red" if below.get("down") else ""))
    if dead.get("messages"):
        reasons = dead.get("reasons")
        latest = (
            ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            if isinstance(reasons, dict)
            else ""
        )
        lines.append(
            _cut(f"{counted(dead['messages'], 'dead letter')}; latest: {printable(latest)}", width, "red")
        )
    if look.problem:
        lines.append(_cut(look.problem, width, "bold red"))
    return lines


def _flow(rates: dict[str, float | None]) -> str:
    names = (("entered", "entered"), ("delivered", "delivered"), ("in", "links in"), ("out", "out"))
    parts = [f"{text} {_rate(rates[f'{key}_per_s'])}/s" for key, text in names if f"{key}_per_s" in rates]
    return " · ".join(parts)


def _links(look: Look, width: int, rows: int) -> Table:
    live = any(line.in_per_s is not None for line in look.links)
    made = _table(width)
    made.add_column("Link", no_wrap=True, ratio=2, min_width=8)
    made.add_column("State", no_wrap=True, min_width=7)
    if width >= NARROW:
        made.add_column("since", no_wrap=True, justify="right")
        made.add_column("in/s" if live else "in", no_wrap=True, justify="right")
        made.add_column("out/s" if live else "out", no_wrap=True, justify="right")
    made.add_column("waiting", no_wrap=True, justify="right")
    if width >= MIDDLE:
        made.add_column("oldest", no_wrap=True, justify="right")
        made.add_column("Why", no_wrap=True, ratio=3)
    for line in look.links[:rows]:
        made.add_row(*_link_cells(line, width, live))
    more = (
        len(look.links[: len(look.links)])
        - len(look.links[:rows])
        + int(look.found.get("children_more") or 0)
    )
    return _and_more(made, more)


def _link_cells(line: LinkLine, width: int, live: bool) -> list[Text]:
    arrow = _ARROWS.get(line.relation, "  ")
    cells = [Text(arrow + (line.name or "parent")), Text(line.state, style=_COLOURS.get(line.state, ""))]
    if width >= NARROW:
        cells += [
            Text(duration(line.since_s) if line.since_s is not None else ""),
            Text(_rate(line.in_per_s) if live else str(line.messages_in)),
            Text(_rate(line.out_per_s) if live else str(line.messages_out)),
        ]
    cells.append(Text(str(line.waiting), style="yellow" if line.waiting else ""))
    if width >= MIDDLE:
        cells += [Text(_age(line.oldest_s)), Text(line.why)]
    return cells


def _queues(look: Look, width: int, rows: int) -> Table:
    made = _table(width)
    made.add_column("Queue", no_wrap=True, ratio=2, min_width=10)
    made.add_column("messages", no_wrap=True, justify="right")
    made.add_column("oldest", no_wrap=True, justify="right")
    if width >= NARROW:
        made.add_column("in/s", no_wrap=True, justify="right")
        made.add_column("out/s", no_wrap=True, justify="right")
    if width >= MIDDLE:
        made.add_column("bytes", no_wrap=True, justify="right")
        made.add_column("readers", no_wrap=True, justify="right")
    for line in look.queues[:rows]:
        made.add_row(*_queue_cells(line, width))
    return _and_more(made, len(look.queues) - len(look.queues[:rows]) + look.queues_more)


def _down(look: Look, width: int, rows: int) -> Table:
    """The nodes below that are down, instead of the queues."""
    made = _table(width)
    made.add_column("Node that is down", no_wrap=True, ratio=2, min_width=10)
    if width >= NARROW:
        made.add_column("below", no_wrap=True)
    made.add_column("for", no_wrap=True, justify="right")
    found = look.below["below"]
    for node in found[:rows]:
        way = [Text(printable(str(node["via"])))] if width >= NARROW else []
        made.add_row(Text(printable(str(node["name"])), style="red"), *way, Text(state(node)[1]))
    return _and_more(made, len(found) - len(found[:rows]) + int(look.below.get("more") or 0))


def _queue_cells(line: QueueLine, width: int) -> list[Text]:
    cells = [
        Text(line.name),
        Text(str(line.messages), style="yellow" if line.messages and not line.readers else ""),
        Text(_age(line.oldest_s)),
    ]
    if width >= NARROW:
        cells += [Text(_rate(line.in_per_s)), Text(_rate(line.out_per_s))]
    if width >= MIDDLE:
        cells += [Text(size(line.size)), Text(str(line.readers))]
    return cells


def _table(width: int) -> Table:
    return Table(box=box.SIMPLE_HEAD, expand=True, width=width, padding=(0, 1), pad_edge=False)


def _and_more(made: Table, more: int) -> Table:
    if more > 0:
        made.add_row(Text(f"and {more} more", style="dim"))
    return made


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:.0f}" if rate >= 100 or rate == int(rate) else f"{rate:.1f}"


def _age(seconds: float) -> str:
    return duration(seconds) if seconds else ""


def _cut(text: str, width: int, style: str = "") -> Text:
    """One line, cut at the right."""
    made = Text(text, style=style, no_wrap=True, overflow="ellipsis")
    made.truncate(max(width, 1), overflow="ellipsis")
    return made


__all__: Sequence[str] = ["frame", "keys_line"]
