"""What a reader of another broker's configuration fills in: one way to a parent, and what was not kept."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from config.kinds import Fault, shown
from config.model import ClientTls, Link, SiteBroker, SiteRule, TreeConnector
from config.uris import LINK_URI
from config.values import PATTERN, PREFIX
from sapwood.protocol.errors import InvalidName, SapwoodError
from sapwood.protocol.names import node_name
from treeconnector.patterns import check_pattern, intersection, to_mqtt

Direction = Literal["in", "out", "both"]
OF_BROKER: Final = "SITE_BROKER_PASSWORD"
OF_PARENT: Final = "SAPWOOD_SECRET"
AT_PARENT: Final = "PARENT_BROKER_PASSWORD"
"""The environment variables that hold the secrets of the old file."""


class Note(NamedTuple):
    """What an operator has to know. `line` counts from 1; 0 = about the whole."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(slots=True)
class Draft:
    """One connection of the old configuration: `ways` to the broker there, `broker` here, what passes.

    `name`: the connection's own. `site`: a legal name for the node, '' if nothing there could be one.
    """

    name: str
    line: int
    site: str = ""
    ways: list[str] = field(default_factory=list)
    user: str | None = None
    tls: dict[str, Any] = field(default_factory=dict)
    encrypted: bool = False
    link: dict[str, Any] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    rules: list[SiteRule] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, line: int, text: str) -> None:
        self.notes.append(Note(line, text))

    def stays(self, names: Iterable[str]) -> None:
        """Say that these configure the broker itself, which stays as it is."""
        if listed := ", ".join(map(shown, names)):
            self.note(0, f"not converted, since the broker stays as it is: {listed}")

    def way(self, line: int, uri: str) -> None:
        """Another way to the parent."""
        try:
            self.ways.append(LINK_URI.parse(uri))
        except Fault as fault:
            self.note(line, f"left out: {fault}")

    def rule(self, line: int, kind: str, pattern: str, direction: Direction, here: str, there: str) -> None:
        """Names of one `kind` pass: `here` and `pattern` at the site's broker, `there` and it in the tree."""
        try:
            if kind == "topic":
                here, there, pattern = whole_levels(here, there, pattern)
                check_pattern(pattern)
            rule = SiteRule(
                pattern=PATTERN.parse(f"{kind}:{pattern}"),
                direction=direction,
                local_prefix=PREFIX.parse(here) if here else None,
                tree_prefix=PREFIX.parse(there) if there else None,
            )
        except (SapwoodError, Fault) as error:
            self.note(line, f"no counterpart: {error}")
            return
        self.take(line, rule)

    def take(self, line: int, rule: SiteRule) -> None:
        """A rule behind the others, unless it is there already."""
        if rule in self.rules:
            return
        if rule.pattern.startswith("topic:") and any(_overlap(rule, other) for other in self.rules):
            self.note(
                line,
                "a topic passes through the first rule that matches it: what a rule above takes does not"
                " pass through this one as well",
            )
        self.rules.append(rule)

    def password_here(self, line: int) -> None:
        self.broker["secret_env"] = OF_BROKER
        self.note(line, f"the password stays out of the file: set {OF_BROKER} in the node's environment")

    def leads_with(self, other: "Draft") -> bool:
        """Do both lead from one broker here to one peer?"""
        here = self.broker.get("uri") == other.broker.get("uri")
        return here and not {*self.ways}.isdisjoint(other.ways)

    def join(self, others: "Sequence[Draft]") -> None:
        """Make one of several that lead together. Of what they say of the link the first word counts."""
        shared = {*self.notes}.intersection(*(other.notes for other in others))
        for each in (self, *others):
            own = f"connection {each.name!r}: "
            each.notes = [
                note if note.line or note in shared else Note(0, own + note.text) for note in each.notes
            ]
        for other in others:
            self._join(other)
        names = ", ".join(repr(each.name) for each in (self, *others))
        self.note(0, f"{names} lead to one peer, and are one link")

    def _join(self, other: "Draft") -> None:
        self.notes += other.notes
        self.ways += [way for way in other.ways if way not in self.ways]
        for rule in other.rules:
            self.take(other.line, rule)
        if self.user != other.user and None not in (self.user, other.user):
            self.note(
                other.line, f"left out: user {shown(str(other.user))}: {shown(str(self.user))} is at the peer"
            )
        self.user = self.user or other.user
        if self.site == legal_name(self.name):
            self.site = other.site if other.site != legal_name(other.name) else self.site
        if other.site not in (self.site, legal_name(other.name)):
            told = f"client id {shown(other.site)} of connection {other.name!r}"
            self.note(other.line, f"left out: {told}: {shown(self.site)} names the node")
        for ours, theirs in ((self.tls, other.tls), (self.link, other.link), (self.broker, other.broker)):
            for name, value in theirs.items():
                if ours.setdefault(name, value) != value:
                    told = f"{name} {shown(str(value))} of connection {other.name!r}"
                    self.note(other.line, f"left out: {told}: {shown(str(ours[name]))} counts")

    def connector(self) -> TreeConnector:
        """The tree connector. Password and secret are asked for wherever the old file had a user."""
        first, *more = self.ways
        return TreeConnector(
            nodetype="leaf",
            uri=first,
            uris=tuple(more),
            user=self.user,
            password_env=AT_PARENT if self.user else None,
            secret_env=OF_PARENT if self.user else None,
            tls=ClientTls(**self.tls),
        )

    def site_broker(self) -> SiteBroker:
        return SiteBroker(**self.broker, rules=tuple(self.rules))

    def timing(self) -> Link:
        return Link(**self.link)


def _overlap(one: SiteRule, other: SiteRule) -> bool:
    """Is there a topic that both rules would take the same way?"""
    if not other.pattern.startswith("topic:") or {one.direction, other.direction} == {"in", "out"}:
        return False
    filters = [_filter(rule, rule.local_prefix) for rule in (one, other)]
    if one.direction == "in" or other.direction == "in":
        filters = [_filter(rule, rule.tree_prefix) for rule in (one, other)]
    return intersection(*filters) is not None


def _filter(rule: SiteRule, prefix: str | None) -> str:
    return (prefix or "") + to_mqtt(rule.pattern.removeprefix("topic:"))


def whole_levels(here: str, there: str, pattern: str) -> tuple[str, str, str]:
    """Elsewhere a prefix is pasted in front of a pattern; here it ends a level. Raises `SapwoodError`."""
    if not pattern:
        return _one_topic(here, there)
    if pattern.startswith("/") and not _ends_a_level(here) and not _ends_a_level(there):
        return f"{here}/", f"{there}/", pattern[1:]
    for prefix in (here, there):
        if prefix and not _ends_a_level(prefix):
            raise SapwoodError(
                f"the prefix {prefix!r} ends within a level of {prefix + pattern!r}:"
                " a prefix of a topic holds whole levels, so end it with '/'"
            )
    return here, there, pattern


def _one_topic(here: str, there: str) -> tuple[str, str, str]:
    """One topic under two names, which must end alike."""
    near, far = here.split("/"), there.split("/")
    if not here or not there or near[-1] != far[-1]:
        raise SapwoodError(
            f"topic {here!r} is called {there!r} there: the two names may differ in their first levels only"
        )
    return "".join(f"{level}/" for level in near[:-1]), "".join(f"{level}/" for level in far[:-1]), near[-1]


def _ends_a_level(prefix: str) -> bool:
    return prefix.endswith("/")


def legal_name(text: str) -> str:
    """The nearest legal name of a node, '' if there is none."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]
    try:
        return node_name(name)
    except InvalidName:
        return ""


Option = Callable[[Draft, int, str], None]
"""What one option of the old configuration means for a draft: its line and its value are given."""


def needless(why: str) -> Option:
    """An option that nothing has to replace."""
    return lambda draft, line, value: None if not why else draft.note(line, f"not needed: {why}")


def nothing_like_it(what: str) -> Option:
    """An option that has no counterpart."""
    return lambda draft, line, value: draft.note(line, f"no counterpart: {what}")
