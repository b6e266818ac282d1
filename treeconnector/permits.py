"""What a child may consume, send, and have below it: its parent's grant, and those of the nodes above.

A *rule* is one pattern of a grant, as it is written:

prices/#             topics and queues of these names; levels, `+` and `#` as in topic patterns
store/{name}/#       `{name}`: the child, or a node that it may have below it
topic:audit/*-late   topics only; `*` is any text within a level
queue:orders         queues only
till@hq, #@{name}    cells of nodes: a queue's name, and a node's

A rule of `opens` is `NAME@NODE`: what the child, and nodes below it, may open channels to; one of `serves`
is what others may open at the child and at nodes below it. In both '*' is any text, and `{name}` as above.

A grant's `nodes` are names of nodes, in which `*` is any text, and `{name}` the child's own.

Law: a grant is a list of what may be; what no rule names, may not be. To each belong, whatever is written:
the child's own name, the cells of the nodes that it may have, to read and to send to, and as places to send
to the fresh queues for answers (`ANSWERS`), whose names nobody can guess who was not asked.

Law: a node cannot give what it was not given. What a child may do is what its parent's grant allows *and*
each grant that was told from above; so no intersection of patterns is ever made, and none can be wrong.

Wrinkle: a child that may consume a filter may consume all of it or nothing: every topic that the filter
matches must be allowed (see `permit_patterns`). Nothing is narrowed behind anybody's back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import PatternError
from sapwood.protocol.names import node_name
from treeconnector.patterns import check_pattern
from treeconnector.permit_patterns import ANY, NAME, PatternSet, Test, glob

OWN: Final = ("{name}/#",)
"""What a child may consume and send where nothing is written: all that is below its own name."""
ANSWERS: Final = ("queue:transient-*@*", "queue:System.*@*")
NOTHING: Final = "nothing"
"""Stands alone in a list: nothing is allowed."""
MAX_RULE: Final = 1024
MAX_GRANTS: Final = 64
MAX_GRANTS_BYTES: Final = 4 * 1024 * 1024
_WITHOUT: Final = 5
_OWN_CELLS: Final = "queue:#@{name}"
_LEVEL = re.compile(r"\+|#|[^/+#{}\x00-\x1f\x7f]*(\{name\}[^/+#{}\x00-\x1f\x7f]*)?")
_NODE = re.compile(r"[A-Za-z0-9._*-]{0,64}(\{name\}[A-Za-z0-9._-]{0,64})?")
_CHANNEL = re.compile(r"[A-Za-z0-9._*-]{1,64}@([A-Za-z0-9._*-]{1,64}|\{name\}[A-Za-z0-9._-]{0,64})")
_SHOWN: Final = 5
_REMEMBERED: Final = 4096


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """What node `by` lets its child `child` do. Travels in `frames.Granted`: fields are added at the end."""

    by: str
    child: str
    consume: tuple[str, ...] = OWN
    send: tuple[str, ...] = OWN
    nodes: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()


LISTS: Final = dict(zip(Grant.__struct_fields__[2:], Grant.__struct_defaults__, strict=True))
"""The lists of rules of a grant, and what each holds where nothing is written."""


def pack(grants: Sequence[Grant]) -> bytes:
    """Grants that let no channel through are packed as in versions that had none."""
    return _encode([each if each.opens or each.serves else astuple(each)[:_WITHOUT] for each in grants])


def pieces(data: bytes, max_frame: int) -> Iterator[tuple[bytes, bool]]:
    """What `pack` made, cut so that each piece has room in a frame; and whether another one follows."""
    size = max_frame // 2
    for start in range(0, len(data), size):
        yield data[start : start + size], start + size < len(data)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Grant]).decode


class Rule(NamedTuple):
    """A rule that was read. `node`: '' = of no cell."""

    kinds: tuple[Kind, ...]
    levels: tuple[str, ...]
    node: str = ""


def read_rule(text: str, *, cells: bool = True) -> Rule:
    """Read a rule of `send`, or without `cells` one of `consume`. Raises `PatternError`."""
    kind, colon, rest = text.partition(":")
    kinds = (Kind(kind),) if colon and kind in (Kind.TOPIC, Kind.QUEUE) else (Kind.TOPIC, Kind.QUEUE)
    name = rest if len(kinds) == 1 else text
    node = ""
    if kinds != (Kind.TOPIC,) and "@" in name:
        name, _, node = name.partition("@")
        kinds = (Kind.QUEUE,)
        if not cells:
            raise PatternError(f"{text[:80]!r}: a child reads the cells of its own nodes, and of no others")
        if not node or not _NODE.fullmatch(node) or (ANY in node and NAME in node):
            raise PatternError(f"{text[:80]!r}: {node[:64]!r} is no node's name, nor one with '*' or {NAME}")
    levels = tuple(name.split("/"))
    if not name or len(text) > MAX_RULE or not all(map(_is_level, levels)):
        raise PatternError(
            f"{text[:80]!r} is no permit: expected levels between '/', each '+', '#', or text in which '*' or"
            f" one {NAME} may stand, as in prices/# or store/{NAME}/#"
        )
    return Rule(kinds, levels, node)


def _is_level(level: str) -> bool:
    return bool(_LEVEL.fullmatch(level)) and not (ANY in level and NAME in level)


def check_channel_rule(text: str) -> str:
    """Return `text` if it can stand among a grant's `opens` and `serves`; else raise `PatternError`."""
    if not _CHANNEL.fullmatch(text) or len(text) > MAX_RULE:
        raise PatternError(
            f"{text[:80]!r}: expected NAME@NODE, in which '*' is any text, and {NAME} as the node the child"
        )
    return text


def check_node_rule(text: str) -> str:
    """Return `text` if it can stand among a grant's `nodes`; else raise `PatternError`."""
    if not text or not _NODE.fullmatch(text.replace(NAME, "x")) or text.count(NAME) > 1:
        raise PatternError(
            f"{text[:80]!r}: expected a node's name, in which '*' is any text and {NAME} the child"
        )
    return text


class Names:
    """The nodes that a child may be or have below it."""

    __slots__ = ("_exactly", "_like")

    def __init__(self, child: str, patterns: Iterable[str]) -> None:
        written = [
            check_node_rule(pattern).replace(NAME, child) for pattern in patterns if pattern != NOTHING
        ]
        self._exactly = frozenset((child, *(each for each in written if ANY not in each)))
        self._like: tuple[Test, ...] = tuple(glob(each) for each in written if ANY in each)

    def __repr__(self) -> str:
        return f"<Names exactly={len(self._exactly)} like={len(self._like)}>"

    def __contains__(self, name: object) -> bool:
        if name in self._exactly:
            return True
        return isinstance(name, str) and any(test(name) for test in self._like)


class _Side:
    """One direction of a grant: `written`, and read. `cells`: cells of other nodes may stand in it."""

    __slots__ = ("_cells", "_nodes", "_sets", "written")

    def __init__(self, written: Sequence[str], names: Names, more: Sequence[str], *, cells: bool) -> None:
        self.written = written
        self._sets = {Kind.TOPIC: PatternSet(), Kind.QUEUE: PatternSet()}
        self._cells = PatternSet()
        self._nodes = PatternSet()
        for text in (*written, *more):
            if text == NOTHING:
                continue
            rule = read_rule(text, cells=cells or text == _OWN_CELLS)
            if rule.node:
                self._cells.add((rule.node, *rule.levels), names, text)
                if text not in ANSWERS:
                    self._nodes.add((rule.node,), names, text)
                continue
            for kind in rule.kinds:
                self._sets[kind].add(rule.levels, names, text)

    def covers(self, key: Destination) -> bool:
        """Is a filter allowed with all that it matches, a queue, a cell?"""
        if key.kind == Kind.TOPIC:
            check_pattern(key.name)
            return self._sets[Kind.TOPIC].covers(key.name.split("/"))
        return self.takes(key)

    def takes(self, destination: Destination) -> bool:
        """Is a topic, a queue, a cell allowed?"""
        texts = destination.name.split("/")
        if destination.kind == Kind.TOPIC:
            return bool(self._sets[Kind.TOPIC].rule_of(texts))
        if destination.node:
            return bool(self._cells.rule_of((destination.node, *texts)))
        return bool(self._sets[Kind.QUEUE].rule_of(texts))

    def touches(self, key: Destination) -> bool:
        """Is any of it allowed?"""
        if key.kind == Kind.TOPIC:
            return self._sets[Kind.TOPIC].touches(key.name.split("/"))
        return self.takes(key)

    def reaches(self, node: str) -> bool:
        """Is any cell of a node allowed that is named here, other than those for answers?"""
        return bool(self._nodes.rule_of((node,)))

    def listed(self) -> str:
        return _listed(self.written)


def _listed(written: Sequence[str]) -> str:
    shown = ", ".join(written[:_SHOWN]) or NOTHING
    return f"{shown} and {len(written) - _SHOWN} more" if len(written) > _SHOWN else shown


class _Offers:
    """The channels of one direction that a grant lets through: `written`, and read."""

    __slots__ = ("_rules", "written")

    def __init__(self, written: Sequence[str], names: Names) -> None:
        self.written = written
        self._rules = PatternSet()
        for text in written:
            if text != NOTHING:
                name, _, node = check_channel_rule(text).partition("@")
                self._rules.add((node, name), names, text)

    def takes(self, name: str, node: str) -> bool:
        return bool(self._rules.rule_of((node, name)))


class Rules:
    """A grant, read. Raises `PatternError` if one of its rules is none."""

    __slots__ = ("consume", "grant", "names", "opens", "send", "serves")

    def __init__(self, grant: Grant, *, node: bool = True) -> None:
        """`node`: it is a node's, which has cells; an application has none."""
        own = (_OWN_CELLS,) if node else ()
        self.grant = grant
        self.names = Names(grant.child, grant.nodes)
        self.consume = _Side(grant.consume, self.names, own, cells=False)
        self.send = _Side(grant.send, self.names, (*own, *ANSWERS), cells=True)
        self.opens = _Offers(grant.opens, self.names)
        self.serves = _Offers(grant.serves, self.names)

    def __repr__(self) -> str:
        return f"<Rules of {self.grant.by} for {self.grant.child}>"

    def refusal(self, verb: str, what: object, allowed: str) -> str:
        grant = self.grant
        return f"PERMIT: {grant.by} lets {grant.child} {verb} {allowed}, not {str(what)[:200]}"


class Permit:
    """What one child may do here. Without rules it may do everything.

    `rules`: the parent's own first, then those that nodes above it have told. A method that says why not
    says '' where it may be; else a text for people that begins with `PERMIT` and names the rule.
    """

    __slots__ = ("_sent", "rules")

    def __init__(self, rules: Sequence[Rules] = ()) -> None:
        self.rules = tuple(rules)
        self._sent: dict[Destination, str] = {}

    def __repr__(self) -> str:
        return f"<Permit of {len(self.rules)} grants>"

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def grants(self) -> tuple[Grant, ...]:
        return tuple(rules.grant for rules in self.rules)

    def why_not_consume(self, key: Destination) -> str:
        """Of a filter, a queue, or a cell."""
        for rules in self.rules:
            if not rules.consume.covers(key):
                return rules.refusal("consume", key, rules.consume.listed())
        return ""

    def why_not_send(self, destination: Destination) -> str:
        """Of a topic, a queue, or a cell; asked for each bundle, so the answers are remembered."""
        known = self._sent.get(destination)
        if known is None:
            if len(self._sent) >= _REMEMBERED:
                self._sent.clear()
            known = self._sent[destination] = self._why_not_send(destination)
        return known

    def _why_not_send(self, destination: Destination) -> str:
        for rules in self.rules:
            if not rules.send.takes(destination):
                return rules.refusal("send to", destination, rules.send.listed())
        return ""

    def why_not_take(self, destination: Destination) -> str:
        """Of a topic, a queue, or a cell: may its messages go to the child?"""
        for rules in self.rules:
            if not rules.consume.takes(destination):
                return rules.refusal("consume", destination, rules.consume.listed())
        return ""

    def why_not_reach(self, node: str) -> str:
        """Of a node's name: has it a cell that the child may send to?"""
        for rules in self.rules:
            if node not in rules.names and not rules.send.reaches(node):
                return rules.refusal("send to", f"any cell of {node[:64]}", rules.send.listed())
        return ""

    def why_not_open(self, name: str, node: str) -> str:
        """May the child, or a node below it, open a channel to what a node offers by that name?"""
        for rules in self.rules:
            if not rules.opens.takes(name, node):
                return rules.refusal("open channels to", f"{name}@{node}", _listed(rules.opens.written))
        return ""

    def why_not_serve(self, name: str, node: str) -> str:
        """May others open a channel to what the child, or a node below it, offers by that name?"""
        for rules in self.rules:
            if not rules.serves.takes(name, node):
                return rules.refusal("serve channels to", f"{name}@{node}", _listed(rules.serves.written))
        return ""

    def why_not_have(self, node: str) -> str:
        """Of a node's name: may the child be it, or have it below it?"""
        for rules in self.rules:
            if node not in rules.names:
                allowed = ", ".join(rules.grant.nodes[:_SHOWN]) or "no other node"
                return rules.refusal("have below it", node, allowed)
        return ""

    def may_hear(self, key: Destination) -> bool:
        """May the child know that somebody consumes this? If it may send something there."""
        return all(rules.send.touches(key) for rules in self.rules)


def application(node: str, name: str, consume: Sequence[str], send: Sequence[str]) -> Rules:
    """What a node lets an application do, whose `{name}` is its account's. Raises `PatternError`."""
    return Rules(Grant(node, name, tuple(consume) or OWN, tuple(send) or OWN), node=False)


def unpack(data: bytes) -> list[Rules]:
    """What `pack` made, read. Raises `PatternError` or `InvalidName` if it is none, or too much."""
    try:
        grants = _decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise PatternError(f"not a list of grants: {error}") from None
    if len(grants) > MAX_GRANTS:
        raise PatternError(f"{len(grants)} grants: {MAX_GRANTS} at most")
    for grant in grants:
        node_name(grant.by)
        node_name(grant.child)
    return [Rules(grant) for grant in grants]
