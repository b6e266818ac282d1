"""What rules find: a combination that cannot be, each value being right by itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from config.fields import Path
from config.uris import Address


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`path` is what to change; `related` are the other settings that the rule looked at."""

    path: Path
    message: str
    related: tuple[Path, ...] = ()


def listed_twice(
    section: str, what: str, names: Iterable[str], setting: str = "name"
) -> Iterator[Contradiction]:
    """`names`: of the items of a list, or another `setting` of them, each of which stands there once."""
    first: dict[str, Path] = {}
    for i, name in enumerate(names):
        path: Path = (section, i, setting)
        if name in first:
            yield Contradiction(path, f"{what} {name!r} is listed twice", (first[name],))
        first.setdefault(name, path)


def needless_path(path: Path, place: Address) -> Iterator[Contradiction]:
    if not place.looked_up and not place.protocol.has_path and place.path not in ("", "/"):
        yield Contradiction(path, f"an {place.protocol.title} address has no path: leave {place.path!r} out")
