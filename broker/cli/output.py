"""How commands speak: JSON or text on standard output, patience and errors on standard error.

Law: what stands in a table is shown as it is. Names and payloads come from applications: none of them colours
a table, moves the cursor or stops the command, whatever brackets and control characters it has.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PATIENCE: Final = 2.0
"""Seconds after which a command that is still at work says so."""


def console() -> "Console":
    """Standard output with colours on a terminal; plain, and never wrapped, anywhere else."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def table(*columns: str, title: str = "") -> "Table":
    """A table with one heading a column; a heading that begins with '>' is right-aligned.

    A cell is a text, shown as it is, or a `rich.text.Text`, whose style counts.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    class Plain(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(
                *(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **options
            )

    made = Plain(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in columns:
        made.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left")
    return made


def printable(text: str) -> str:
    """The text with a dot for every character that a terminal would not show, but obey."""
    return "".join(each if each.isprintable() or each == "\n" else "·" for each in text)


def print_table(made: "Table") -> None:
    """Print all of it. Where it is wider than there is room, columns without a word go, and texts have more
    lines; no word and no figure is cut, and lines that are still too long are left to the terminal.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    options = console.options.update(max_width=sys.maxsize)
    if made.rows and Measurement.get(console, options, made).maximum > console.width:
        made.columns = [column for column in made.columns if any(map(str, column.cells))]
        made.padding = (0, 1, 0, 0)
        _narrow(made, console.width - Measurement.get(console, options, made).maximum)
        console.width = max(console.width, Measurement.get(console, options, made).maximum)
    console.print(made)


def _narrow(made: "Table", room: int) -> None:
    """Take from the widest texts that have words to break at, until `room` is not below 0."""
    from rich.cells import cell_len

    texts = [[str(each) for each in (column.header, *column.cells)] for column in made.columns]
    widths = [max(cell_len(line) for each in text for line in each.split("\n")) for text in texts]
    least = [
        width if column.justify == "right" else max(map(cell_len, " ".join(text).split()), default=0)
        for column, width, text in zip(made.columns, widths, texts, strict=True)
    ]
    while room < 0 and (able := [place for place, width in enumerate(widths) if width > least[place]]):
        widths[max(able, key=widths.__getitem__)] -= 1
        room += 1
    for column, width in zip(made.columns, widths, strict=True):
        column.width = width


def say_more(found: dict[str, Any]) -> None:
    """Say how many follow what was listed."""
    if found.get("more"):
        print(f"and {found['more']} more (--limit)")


def print_lines(heading: str, lines: Iterable[str]) -> None:
    """Lines to be copied: each as long as it is."""
    sys.stdout.write(f"{printable(heading)}\n" + "".join(f"  {printable(line)}\n" for line in lines))
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """One JSON value on one line. Bytes and dates have no place in it."""
    plain = (sys.stdout.encoding or "utf-8").lower() != "utf-8"
    sys.stdout.write(json.dumps(value, ensure_ascii=plain, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell the person something beside the result."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Say `text` on standard error when the work inside takes longer than two seconds."""
    finished = Event()
    thread = Thread(target=_say_after_a_while, args=(text, finished), daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _say_after_a_while(text: str, finished: Event) -> None:
    if finished.wait(PATIENCE):
        return
    if not sys.stderr.isatty():
        note(f"{text} …")
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        finished.wait()
