"""PyYAML's way from a text to events, without the rest of it.

Wrinkle: PyYAML imports all of itself: what makes values of events, what writes, and the same once more in C.
None of that is needed here, and it would stay in the memory of each node. So its package has no code of its
own while these modules are loaded; they are ours alone, and whoever imports `yaml` gets a whole one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

__all__ = [
    "AliasEvent",
    "Event",
    "MappingEndEvent",
    "MappingStartEvent",
    "Mark",
    "MarkedYAMLError",
    "ReaderError",
    "ScalarEvent",
    "SequenceEndEvent",
    "SequenceStartEvent",
    "StreamEndEvent",
    "parse",
]


@contextmanager
def _parts_alone() -> Iterator[None]:
    spec = find_spec("yaml")
    whole = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_of_yaml(name)}
    package = sys.modules["yaml"] = ModuleType("yaml")
    package.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    try:
        yield
    finally:
        for name in list(filter(_is_of_yaml, sys.modules)):
            del sys.modules[name]
        sys.modules.update(whole)


def _is_of_yaml(name: str) -> bool:
    return name.partition(".")[0] == "yaml"


with _parts_alone():
    from yaml.error import Mark, MarkedYAMLError
    from yaml.events import (
        AliasEvent,
        Event,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
        StreamEndEvent,
    )
    from yaml.parser import Parser
    from yaml.reader import Reader, ReaderError
    from yaml.scanner import Scanner


class _Parsing(Reader, Scanner, Parser):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def parse(text: str) -> Iterator[Event]:
    """The events of `text`, as far as it can be read. Raises `ReaderError` or `MarkedYAMLError` there."""
    parsing = _Parsing(text)
    try:
        while parsing.check_event():
            yield parsing.get_event()  # type: ignore[no-untyped-call]
    finally:
        parsing.dispose()
