"""From a document to the model: every key and value is checked, and every mistake is kept.

Law: nothing stops at the first mistake, but at the ten thousandth it does. A wrong value is replaced by a
stand-in so that the rest can be checked too; rules about combinations are silent where one of the values they
look at was wrong.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, assert_never

from config.contradictions import Contradiction
from config.document import Entry, ListNode, Mark, Node, ScalarNode, SectionNode
from config.errors import LISTED, ConfigurationError, Problem, did_you_mean
from config.fields import Part, Parts, Path, Scalar, Setting, Spelling, Values, alone, settings
from config.kinds import Fault, Kind, shown
from config.model import Site
from config.rules import contradictions, secret_advice

Made = TypeVar("Made")
MOST_MISTAKES: Final = 10_000
_NOUNS = {"integer": "the number", "number": "the number", "boolean": "the truth value", "text": "the text"}


def site(document: SectionNode, spelling: Spelling, file: str) -> Site:
    """Make the model of the section `broker`; raise `ConfigurationError` with all that is wrong."""
    return section(Site, document, spelling, file, contradictions)


def section(
    model: type[Made],
    document: SectionNode,
    spelling: Spelling,
    file: str,
    rules: Callable[[Made, Spelling], Iterable[Contradiction]],
    root: str = "broker",
) -> Made:
    """Make a `model` of a section; `rules` find what its settings cannot be together.

    Raises `ConfigurationError` with all that is wrong.
    """
    builder = _Builder(spelling, root)
    with contextlib.suppress(_Enough):
        made: Made = builder.section(model, document, ())
        builder.add_contradictions(rules(made, spelling))
    if builder.problems:
        ordered = sorted(builder.problems, key=lambda problem: problem[0])
        raise ConfigurationError(Problem(message, file, *mark) for mark, message in ordered)
    return made


class _Enough(Exception):
    """So many mistakes that the file is none of ours."""


class _Builder:
    def __init__(self, spelling: Spelling, root: str) -> None:
        self.spelling = spelling
        self.root = root
        self.problems: list[tuple[Mark, str]] = []
        self.marks: dict[Path, Mark] = {}
        self.faulty: set[Path] = set()

    def complain(self, mark: Mark, message: str, path: Path | None = None) -> None:
        self.problems.append((mark, message))
        if len(self.problems) >= MOST_MISTAKES:
            raise _Enough
        if path is not None:
            self.faulty.add(path)

    def section(self, cls: type[Any], node: Node, path: Path) -> Any:
        """Make a section of whatever stands there."""
        self.marks[path] = node.mark
        node = self.written_out(cls, node)
        if not isinstance(node, SectionNode):
            self.expect_absent(node, path, "a section with keys")
            node = SectionNode((), node.mark)
        self.problems.extend(node.strays)
        known = {self.spelling(setting.name): setting for setting in settings(cls)}
        found: dict[str, Any] = {}
        seen: dict[str, Mark] = {}
        for entry in node.entries:
            setting = known.get(entry.key)
            if entry.misplaced:
                self.complain(entry.mark, entry.misplaced, (*path, setting.name) if setting else None)
            elif setting is None:
                self.complain(entry.mark, former(cls, entry.key) or self.unknown(entry.key, known))
            elif entry.key in seen:
                first = seen[entry.key]
                self.complain(entry.mark, f"{entry.key!r} stands here again, first in line {first.line}")
                self.value(setting, entry.node, (*path, setting.name))
            else:
                self.marks[*path, setting.name] = entry.mark
                found[setting.name] = self.value(setting, entry.node, (*path, setting.name))
            seen.setdefault(entry.key, entry.mark)
        for setting in settings(cls):
            if isinstance(setting, Scalar) and setting.required and setting.name not in found:
                found[setting.name] = setting.example
                if self.spelling(setting.name) not in seen:
                    self.miss(setting, (*path, setting.name), node.mark)
        return cls(**found)

    def written_out(self, cls: type[Any], node: Node) -> Node:
        """A value that stands where a section could, as that section."""
        setting = alone(cls)
        if setting is None or not isinstance(node, ScalarNode) or node.tag == "null":
            return node
        return SectionNode((Entry(self.spelling(setting.name), node.mark, node),), node.mark)

    def miss(self, setting: Scalar, path: Path, mark: Mark) -> None:
        name = self.spelling(setting.name)
        self.complain(mark, f"{name!r} is missing: expected {setting.kind.expected}", path)

    def unknown(self, key: str, known: dict[str, Setting]) -> str:
        advice = secret_advice(key, known, self.spelling)
        if advice:
            return advice
        if len(self.problems) > LISTED:
            return f"{shown(key)} is not a setting here"
        near = did_you_mean(key, known)
        expected = "" if near else f"; expected one of {', '.join(known)}"
        return f"{shown(key)} is not a setting here{near}{expected}"

    def value(self, setting: Setting, node: Node, path: Path) -> Any:
        match setting:
            case Scalar(kind=kind):
                value, right = self.scalar(kind, node, path)
                return value if right else (setting.example if setting.required else setting.default)
            case Part(section=cls):
                return self.section(cls, node, path)
            case Values(kind=kind):
                found = [self.scalar(kind, item, (*path, i)) for i, item in enumerate(self.items(node, path))]
                if not all(right for _, right in found):
                    self.faulty.add(path)
                return tuple(value for value, right in found if right)
            case Parts(section=cls):
                items = self.items(node, path)
                self.bound(setting, items, path)
                return tuple(self.section(cls, item, (*path, i)) for i, item in enumerate(items))
            case _:
                assert_never(setting)

    def items(self, node: Node, path: Path) -> tuple[Node, ...]:
        if isinstance(node, ListNode):
            self.problems.extend(node.strays)
            return node.items
        self.expect_absent(node, path, "a list")
        return ()

    def bound(self, setting: Parts, items: tuple[Node, ...], path: Path) -> None:
        if setting.maximum is None or len(items) <= setting.maximum:
            return
        name, uris = self.spelling(setting.item), self.spelling("uris")
        advice = f"a node has one parent; further ways to it go into {uris!r} of the first"
        self.complain(
            items[setting.maximum].mark, f"expected at most {setting.maximum} {name!r}: {advice}", path
        )

    def expect_absent(self, node: Node, path: Path, expected: str) -> None:
        """An empty value stands for an empty section or list; everything else is a mistake."""
        if isinstance(node, ScalarNode) and node.tag == "null":
            return
        self.complain(node.mark, f"{self.named(path)}: expected {expected}, found {self.found(node)}", path)

    def scalar(self, kind: Kind[Any], node: Node, path: Path) -> tuple[Any, bool]:
        """Return the value and whether it was right."""
        self.marks.setdefault(path, node.mark)
        try:
            if not isinstance(node, ScalarNode) or (node.tag != "untyped" and node.tag not in kind.tags):
                raise Fault(f"expected {kind.expected}, found {self.found(node)}{self.quoting(kind, node)}")
            text = node.text.strip(" \t\r\n") if node.tag == "untyped" and kind.collapse else node.text
            return kind.parse(text), True
        except Fault as fault:
            self.complain(node.mark, f"{self.named(path)}: {fault}", path)
            return None, False

    def quoting(self, kind: Kind[Any], node: Node) -> str:
        if not isinstance(node, ScalarNode) or node.tag == "null":
            return ""
        if node.tag == "text":
            return "; write it without quotes" if kind.tags & {"integer", "number"} else ""
        return "; write it in quotes" if "text" in kind.tags else ""

    def found(self, node: Node) -> str:
        match node:
            case ScalarNode(tag="null"):
                return "nothing"
            case ScalarNode(text=text, tag=tag):
                return f"{_NOUNS.get(tag, 'the text')} {shown(text)}"
            case ListNode():
                return "a list"
            case SectionNode():
                return "a section"
            case _:
                assert_never(node)

    def named(self, path: Path) -> str:
        """`treeConnectors[0].uri`"""
        parts = (f"[{part}]" if isinstance(part, int) else f".{self.spelling(part)}" for part in path)
        return "".join(parts).lstrip(".") or self.root

    def add_contradictions(self, found: Iterable[Contradiction]) -> None:
        for contradiction in found:
            if not self.faulty & {contradiction.path, *contradiction.related}:
                self.complain(self.nearest(contradiction.path), contradiction.message)

    def nearest(self, path: Path) -> Mark:
        """The place of a setting, or of the section around it where the file leaves it out."""
        while path not in self.marks:
            path = path[:-1]
        return self.marks[path]


def former(cls: type[Any], key: str) -> str:
    """What to say of a setting that a section had once; '' if it had none of that name."""
    told: str = getattr(cls, "FORMER", {}).get(key, "")
    return f"{key!r} is no setting any more: {told}" if told else ""
