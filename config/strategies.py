"""The strategies by which a connector orders its ways: four words, and those that are installed beside."""

from typing import Final

from config.kinds import Text

WORDS: Final = ("in-order", "random", "least-latency", "load-shared")
GROUP: Final = "sapwood.address_strategies"
"""The entry point of a strategy: a callable that takes the node's name."""

STRATEGY: Final = Text(f"{', '.join(WORDS)}, or one that is installed as {GROUP}", r"[a-z][a-z0-9_\-]{0,62}")


def installed() -> dict[str, str]:
    """Names of further strategies, with the objects that they stand for.

    Most nodes ask for none: that they load what looks for it would be a twentieth of their start.
    """
    from importlib.metadata import entry_points

    return {each.name: each.value for each in entry_points(group=GROUP)}


def why_not(word: str) -> str:
    """Why no strategy has that name; '' if one does."""
    if word in WORDS:  # to look through all that is installed takes longer than to read a site's file
        return ""
    names = (*WORDS, *installed())
    return "" if word in names else f"no strategy {word!r} is installed: expected one of {', '.join(names)}"
