"""What rules find: a combination that cannot be, each value being right by itself."""

from collections.abc import Iterable, Iterator

from config.fields import Path, Spelling
from config.records import record
from config.tls import ClientTls
from config.uris import Address


@record
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
        yield Contradiction(
            path, f"an address of {place.protocol.title} has no path: leave {place.path!r} out"
        )


def needless_tls(
    path: Path, tls: ClientTls, ways: Iterable[Address], spell: Spelling, related: tuple[Path, ...] = ()
) -> Iterator[Contradiction]:
    """TLS settings beside addresses that all go without TLS: probably the wrong scheme."""
    plain = [way for way in ways if not way.tls and not way.looked_up]
    if tls != ClientTls() and plain and len(plain) == len(list(ways)):
        scheme = plain[0].scheme
        message = f"{spell('tls')!r} has no use with {scheme}://: write {scheme}s://, or leave it out"
        yield Contradiction((*path, "tls"), message, related or ((*path, "uri"), (*path, "uris")))
