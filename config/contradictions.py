"""What rules find: a combination that cannot be, each value being right by itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from config.fields import Path
from config.uris import Address


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`path` is what to change; `related` are the other settings that the rule looked at."""

    path: Path
    message: str
    related: tuple[Path, ...] = ()


def needless_path(path: Path, place: Address) -> Iterator[Contradiction]:
    if not place.looked_up and not place.protocol.has_path and place.path not in ("", "/"):
        yield Contradiction(path, f"an {place.protocol.title} address has no path: leave {place.path!r} out")
