"""Tables in documents: each stands between two marks, and a benchmark puts it there, never a hand."""

from collections.abc import Iterable
from pathlib import Path


def marks(name: str) -> tuple[str, str]:
    """The lines before and after the table of that name."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def put(document: Path, name: str, shown: str) -> None:
    """Put the table between its marks. Raises `ValueError` if the document lacks them."""
    begin, end = marks(name)
    text = document.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{document} has no place for {name}: write {begin} and {end}, a line each")
    document.write_text(f"{before}{begin}\n{shown}\n{end}{after}", encoding="utf-8")


def put_in(document: Path, name: str) -> str:
    """The table of that name as the document has it."""
    begin, end = marks(name)
    return document.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip()


def table(head: str, rows: Iterable[Iterable[object]], texts: int = 1) -> str:
    """Markdown. `head`: names of columns with `|` between; all but the first `texts` of them are numbers."""
    names = [name.strip() for name in head.split("|")]
    lines = [names, [*["---"] * texts, *["---:"] * (len(names) - texts)], *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
