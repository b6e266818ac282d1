"""What a streaming query has taken for good, as its checkpoint tells.

Spark's file source writes into `sources/0` which files each batch of its own has, a file a batch, every tenth
holding all before it; into `offsets` up to which of these each batch of the query reads; and into `commits`
which batches of the query are done. What is committed is never read again.

Wrinkle: Spark can delete files by itself, but then takes them away from the other query that reads them too.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ALL: Final = ".compact"


class Checkpoint:
    """Of one query. `done` gives the names of its committed files, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told = -1

    def __repr__(self) -> str:
        return f"<Checkpoint {self._folder.name} told={self._told}>"

    def done(self) -> set[str]:
        """The files that were committed since it was last asked, or as many as can be told now."""
        last = max((number for number, _ in _numbered(self._folder / "commits")), default=None)
        if last is None:
            return set()
        try:
            until = _offset(self._folder / "offsets" / str(last))
            found = set(self._between(self._told, until))
        except FileNotFoundError:  # Spark tidies up
            return set()
        self._told = max(self._told, until)
        return found

    def _between(self, since: int, until: int) -> Iterator[str]:
        for number, path in _numbered(self._folder / "sources" / "0"):
            for line in path.read_text("utf-8").splitlines()[1:] if number > since else ():
                entry = json.loads(line)
                if since < entry["batchId"] <= until:
                    yield entry["path"].rsplit("/", 1)[-1]


def _offset(path: Path) -> int:
    """The last of the source's batches that a batch of the query reads."""
    return int(json.loads(path.read_text("utf-8").splitlines()[-1])["logOffset"])


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    if folder.is_dir():
        for path in folder.iterdir():
            number = path.name.removesuffix(_ALL)
            if number.isdigit():
                yield int(number), path
