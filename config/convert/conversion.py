"""One bridge of another broker, made into the file of a node beside that broker."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from config import rules
from config.convert import activemq, mosquitto, rabbitmq
from config.convert.draft import OF_PARENT, Draft, Note
from config.document import Unreadable, decode, failure
from config.errors import ConfigurationError, Problem
from config.model import Site
from config.uris import EMBEDDED
from config.write import WRITERS

MAX_BYTES: Final = 64 * 2**20
_COMMENTS: Final[dict[str, Callable[[str], str]]] = {
    "yaml": lambda text: f"# {text}\n",
    "xml": lambda text: f"<!-- {re.sub('-(?=-)', '- ', text)} -->\n",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """The site's model, and what an operator has to know before it is used."""

    site: Site
    notes: tuple[Note, ...]

    def text(self, kind: str) -> str:
        """The file as 'yaml' or 'xml', with the notes as comments."""
        comments = "".join(map(_COMMENTS[kind], map(str, self.notes)))
        head, separator, rest = WRITERS[kind](self.site).partition("?>\n")
        return f"{head}{separator}{comments}{rest}" if separator else f"{comments}{head}"


def convert(
    data: bytes | str,
    file: str = "",
    *,
    connection: str = "",
    name: str = "",
    tree: str = "",
    parent: str = "",
) -> Conversion:
    """Convert a mosquitto.conf, a RabbitMQ's definitions or an activemq.xml.

    `connection` chooses one of several; `name`, `tree` and `parent` (a link URI) are set in place of what the
    file says. Raises `ConfigurationError` where the file, or what would be made of it, is not right.
    """
    try:
        text = decode(data, MAX_BYTES)
        drafts = _reader(text)(text)
    except Unreadable as error:
        raise failure(file, error) from None
    draft = _chosen(drafts, connection, file)
    if parent:
        draft.ways, draft.user = [parent], None
    if not draft.ways:
        advice = "it names no address that a link can lead to: say one with --parent, ws://HOST:7600/link"
        why = "".join(f"; {note}" for note in draft.notes if note.text.startswith("left out"))
        raise ConfigurationError(
            [Problem(f"connection {draft.name!r}: {advice}{why}", file, draft.line or None)]
        )
    node = name or draft.site
    if not node:
        raise ConfigurationError([Problem("nothing here can name the node: say --name", file)])
    site = Site(
        name=node,
        site_broker=draft.site_broker(),
        tree_connectors=(draft.connector(),),
        link=draft.timing(),
    )
    site = rules.check(replace(site, tree=tree) if tree else site, what=file)
    return Conversion(site, tuple(sorted(_all_notes(draft, site), key=lambda note: note.line)))


def _reader(text: str) -> Callable[[str], list[Draft]]:
    begin = text.lstrip()[:1]
    return activemq.read if begin == "<" else rabbitmq.read if begin == "{" else mosquitto.read


def _chosen(drafts: list[Draft], wanted: str, file: str) -> Draft:
    """The connection that is meant, with all that lead to the same peer: a node has one parent."""
    names = [draft.name for draft in drafts]
    found = [group for group in _by_peer(drafts) if not wanted or any(each.name == wanted for each in group)]
    if len(found) == 1:
        (first, *others) = found[0]
        if others:
            first.join(others)
        rest = [draft.name for draft in drafts if draft not in found[0]]
        if rest:
            first.note(0, f"not in this file, since they lead elsewhere: {', '.join(map(repr, rest))}")
        return first
    if not drafts:
        raise ConfigurationError(
            [
                Problem(
                    "no connection: expected a `connection` of mosquitto.conf, a shovel, or a federation",
                    file,
                )
            ]
        )
    listed = ", ".join(map(repr, names[:20]))
    why = f"no connection {wanted!r}" if wanted and not found else "a node has one parent"
    raise ConfigurationError([Problem(f"{why}: choose with --connection one of {listed}", file)])


def _by_peer(drafts: list[Draft]) -> list[list[Draft]]:
    groups: list[list[Draft]] = []
    for draft in drafts:
        fitting = next((group for group in groups if any(map(draft.leads_with, group))), None)
        if fitting is None:
            groups.append([draft])
        else:
            fitting.append(draft)
    return groups


def _all_notes(draft: Draft, site: Site) -> list[Note]:
    notes = list(dict.fromkeys(draft.notes))
    if site.site_broker.uri != EMBEDDED:
        ruled = {rule.pattern.partition(":")[0] for rule in site.site_broker.rules}
        free = [f"{kind}s" for kind in ("queue", "topic") if kind not in ruled]
        if free:
            what = f"no rules for {' and '.join(free)}"
            notes.append(Note(0, f"{what}: all pass for which somebody elsewhere has a consumer"))
    if site.tree_connectors[0].secret_env == OF_PARENT:
        notes.append(Note(0, f"{OF_PARENT} proves this node to its parent"))
    return notes
