"""The nodes that a user of the command line has given names: where they are, and how to be let in.

They are in `contexts.json` of the user's configuration folder. It holds no secret, but names files that do.

Law: a context says where and how at once. Whoever names a node otherwise, by an argument, an option or the
environment, gets none of it: no token goes to a node that it was not given for.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from broker.cli.errors import WRONG_USE, CommandError, make_given, read_given

_FILE: Final = "contexts.json"
_MOST: Final = 1024 * 1024
_MOST_CONTEXTS: Final = 1000


class NodeContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node. The files are absolute paths, '' where there is none."""

    url: str
    token_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def files(self) -> tuple[Path | None, ...]:
        """Of TLS: authorities, certificate, key."""
        return tuple(Path(name) if name else None for name in (self.ca, self.certificate, self.key))


class Contexts(msgspec.Struct, omit_defaults=True):
    """All of a user's. `current`: the one for commands that name no node, '' = none."""

    current: str = ""
    contexts: dict[str, NodeContext] = {}

    def named(self, name: str) -> NodeContext:
        """Raises `CommandError` for a name that is not there."""
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            advice = "name one of these, or add it" if self.contexts else "`sapwood context add` makes one"
            raise CommandError(f"context {name!r} is none of yours ({known}): {advice}", WRONG_USE)
        return self.contexts[name]

    def add(self, name: str, context: NodeContext) -> None:
        """Raises `CommandError` for one too many."""
        if name not in self.contexts and len(self.contexts) >= _MOST_CONTEXTS:
            raise CommandError(f"there are {_MOST_CONTEXTS} contexts already: remove some", WRONG_USE)
        self.contexts[name] = context
        self.current = self.current or name

    def remove(self, name: str) -> None:
        self.named(name)
        del self.contexts[name]
        if self.current == name:
            self.current = ""


def file() -> Path:
    """Where they are kept, as the XDG base directory specification says."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = home if os.path.isabs(home) else os.path.expanduser("~/.config")
    return Path(folder, "sapwood", _FILE)


def read() -> Contexts:
    """Raises `CommandError` for a file that cannot be read, or holds something else."""
    place = file()
    if not os.path.exists(place):  # nor where the folder is somebody else's
        return Contexts()
    try:
        return msgspec.json.decode(read_given(place, _MOST)[:_MOST], type=Contexts)
    except msgspec.DecodeError as error:
        raise CommandError(
            f"{place} holds no contexts ({error}): remove it, and add them with `sapwood context add`",
            WRONG_USE,
        ) from None


def write(contexts: Contexts) -> None:
    """In place of what was there, at once, for the user alone. Raises `CommandError`."""
    place = file()
    make_given(place.parent)
    new = place.with_name(f".{_FILE}.{os.getpid()}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as output:
            output.write(msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n")
        new.replace(place)
    except OSError as error:
        raise CommandError(f"{place} cannot be written: {error.strerror or error}", WRONG_USE) from None
