"""How a node's figures went, drawn in characters."""

import time
from typing import Final

from broker.cli.node_api import Fields
from broker.cli.output import print_table, printable, table
from broker.cli.status import duration, size

_WIDTH: Final = 60
_HEIGHT: Final = 8
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_NONE: Final = " "


def chart(found: Fields, given: Fields) -> None:
    """Print a line for each series, or one series large."""
    if not found["at"]:
        print("no samples of that time yet: the first comes some seconds after the node has started")
        return
    if len(found["series"]) == 1:
        _large(found, found["series"][0])
        return
    made = table("Series", f"{_ago(found)} to now", ">now", ">low", ">high")
    for series in found["series"]:
        values = [value for value in series["values"] if value is not None]
        if values:
            shown = (_in_unit(each, series["unit"]) for each in (values[-1], min(values), max(values)))
            made.add_row(series["name"], _line(columns(found, series, _WIDTH)), *shown)
    print_table(made)


def columns(found: Fields, series: Fields, width: int) -> list[float | None]:
    """The worst value of each part of the time; None where there is no sample."""
    worst = min if series["name"] == "disk_free" else max
    parts: list[float | None] = [None] * width
    span = found["until_s"] - found["since_s"]
    for at, value in zip(found["at"], series["values"], strict=True):
        place = min(max(int((at - found["since_s"]) / span * width), 0), width - 1)
        before = parts[place]
        if value is not None:
            parts[place] = value if before is None else worst(before, value)
    return parts


def _line(parts: list[float | None]) -> str:
    most = max((each for each in parts if each is not None), default=0.0) or 1.0
    return "".join(
        _NONE if each is None else _BLOCKS[min(int(each / most * len(_BLOCKS)), len(_BLOCKS) - 1)]
        for each in parts
    )


def _large(found: Fields, series: Fields) -> None:
    """Eight lines, each of eight eighths."""
    parts = columns(found, series, _WIDTH)
    most = max((each for each in parts if each is not None), default=0.0)
    print(printable(f"{found['node']}: {series['title']}"))
    for row in reversed(range(_HEIGHT)):
        shown = "".join(_eighth(each, most or 1.0, row) for each in parts)
        label = {_HEIGHT - 1: _in_unit(most, series["unit"]), 0: "0"}.get(row, "")
        print(f"{label:>12} │{shown}")
    print(" " * 12 + " └" + "─" * _WIDTH)
    print(" " * 14 + f"{_ago(found):<{_WIDTH - 5}}  now")


def _eighth(value: float | None, most: float, row: int) -> str:
    if value is None:
        return _NONE
    eighths = round(value / most * _HEIGHT * 8) - row * 8
    if eighths <= 0:
        return "▁" if row == 0 else _NONE
    return _BLOCKS[min(eighths, 8) - 1]


def _ago(found: Fields) -> str:
    return time.strftime("%d %b %H:%M UTC", time.gmtime(found["since_s"]))


def _in_unit(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    if unit == "s":
        if 0 < value < 1:
            return f"{value * 1000:.3g} ms"
        return f"{value:.3g} s" if 0 < value < 10 else duration(value)
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{round(value, 3):.4g}{unit}"
