"""Shovels and federation of RabbitMQ: the JSON of `rabbitmqctl export_definitions`.

A shovel moves messages from one broker to another; federation lets a broker read another one's queues and
exchanges. Both become a node beside the broker that the file came from, whose parent is beside the other.

Wrinkle: JSON tells no lines, so notes have none.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from config.convert.draft import AT_PARENT, Draft, legal_name
from config.document import Unreadable
from config.kinds import shown
from config.schemes import protocol_of
from config.uris import is_loopback
from sapwood.protocol.errors import SapwoodError
from treeconnector.patterns import from_amqp

Fields = dict[str, Any]

_ALWAYS: Final = "what waits for an absent neighbour is kept on disk, always"
_CUSTODY: Final = "each message is on disk before the broker's acknowledgement, always"
_NEEDLESS: Final = {
    "ack-mode": _CUSTODY,
    "add-forward-headers": "`sapwood trace` shows a message's way",
    "add-timestamp-header": "`sapwood trace` shows a message's way",
    "src-add-forward-headers": "`sapwood trace` shows a message's way",
    "dest-add-forward-headers": "`sapwood trace` shows a message's way",
    "dest-add-timestamp-header": "`sapwood trace` shows a message's way",
    "prefetch-count": "the window of a link is agreed in its handshake",
    "src-prefetch-count": "the window of a link is agreed in its handshake",
    "reconnect-delay": "a lost link is dialled again with growing pauses: `link`, `backoff_max`",
    "max-hops": "a tree has no loops",
    "consumer-tag": "the node names its own consumers",
    "src-protocol": "a node speaks AMQP 0-9-1 with its broker",
    "dest-protocol": "a node speaks AMQP 0-9-1 with its broker",
    "trust-user-id": "user ids cross no site",
    "queue-type": _ALWAYS,
    "resource-cleanup-mode": "nothing is made at the other broker",
    "bind-nowait": "nothing is made at the other broker",
    "channel-use-mode": "nothing is made at the other broker",
    "expires": "how long an absent neighbour is waited for is `advisories`, `route_retention`",
}
_NOTHING: Final = {
    "message-ttl": "a message expires where its producer, or `delivery`, says so",
    "src-delete-after": "a node moves messages as long as it runs",
    "delete-after": "a node moves messages as long as it runs",
    "dest-publish-properties": "a message's properties stay as they are",
    "publish-properties": "a message's properties stay as they are",
    "ha-policy": "mirroring is the broker's own",
}


_READ: Final = ("parameters", "policies")
_COMPONENTS: Final = {"shovel", "federation-upstream", "federation-upstream-set"}


def read(text: str) -> list[Draft]:
    """Return a draft for each shovel and each federation upstream. Raises `Unreadable`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"this is not well-formed JSON: {str(error)[:200]}") from None
    parameters = _objects(document, "parameters")
    if not parameters:
        raise Unreadable(
            "no 'parameters' with a shovel or a federation upstream: expected the output of"
            " 'rabbitmqctl export_definitions'; make the shovels of advanced.config dynamic first"
        )
    policies = _objects(document, "policies")
    others = _others(document, parameters, policies)
    upstreams = _sets(parameters)
    made = []
    for parameter in parameters:
        value = parameter.get("value")
        if not isinstance(value, dict):
            continue
        name, vhost = str(parameter.get("name", "")), str(parameter.get("vhost", "/"))
        if parameter.get("component") == "shovel":
            made.append(_Shovel(name, value, vhost).draft)
        elif parameter.get("component") == "federation-upstream":
            there = [policy for policy in policies if policy.get("vhost", "/") == vhost]
            sets = [each for of in upstreams.values() for each in of if each.get("upstream") == name]
            made.append(_federation(name, [value, *sets], vhost, list(_policies(name, there, upstreams))))
    for draft in made:
        draft.stays(others)
    return made


def _others(document: Fields, parameters: list[Fields], policies: list[Fields]) -> list[str]:
    """Name all that the file has beside shovels and federation."""
    found = [key for key, value in document.items() if isinstance(value, list) and value and key not in _READ]
    components = {str(each.get("component")) for each in parameters} - _COMPONENTS
    found += [f"parameters {name}" for name in sorted(components)]
    for policy in policies:
        definition = policy.get("definition")
        options = sorted(definition) if isinstance(definition, dict) else []
        found += [
            f"policy {policy.get('name')} {name}" for name in options if not name.startswith("federation-")
        ]
    return found


def _objects(document: Any, key: str) -> list[Fields]:
    found = document.get(key) if isinstance(document, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _draft(name: str, vhost: str, uri: str = "amqp://") -> Draft:
    """`uri`: how this broker is reached here; `vhost`: where, if it does not say so."""
    parts = urlsplit(uri)
    scheme, host = parts.scheme or "amqp", parts.hostname or "localhost"
    if ":" in host:
        host = f"[{host}]"
    path = _vhost(parts.path) or ("" if vhost == "/" else f"/{quote(vhost, safe='')}")
    draft = Draft(name, 0, legal_name(name))
    draft.broker["uri"] = f"{scheme}://{host}:{_port(parts) or _usual_port(scheme)}{path}"
    if parts.username:
        draft.broker["user"] = unquote(parts.username)
        draft.password_here(0)
    return draft


def _port(parts: SplitResult) -> str:
    """As it is written, also if it is none: whoever reads the address says so. '' if there is none."""
    found = re.search(r":([^:@\]]+)$", parts.netloc)
    return found[1] if found else ""


def _uris(given: Any) -> list[str]:
    """One URI, or several of one broker."""
    every = given if isinstance(given, list) else [given]
    return [uri for uri in every if isinstance(uri, str) and _is_uri(uri)]


def _is_uri(text: str) -> bool:
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def _is_here(uri: str) -> bool:
    """`amqp://` is the broker itself, and so is every name of this machine."""
    host = urlsplit(uri).hostname
    return not host or is_loopback(host)


def _lead(draft: Draft, uris: list[str]) -> None:
    """The other broker's addresses, without the user and password that stand in them."""
    for uri in uris:
        parts = urlsplit(uri)
        if not parts.hostname:
            draft.note(0, "left out: an address without a host is this broker itself, and no way to another")
            continue
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        draft.way(
            0, f"{parts.scheme}://{host}:{_port(parts) or _usual_port(parts.scheme)}{_vhost(parts.path)}"
        )
        if parts.username and draft.user is None:
            draft.user = unquote(parts.username)
            draft.note(0, f"the password stays out of the file: set {AT_PARENT}")
        if parts.query:
            draft.note(0, f"no counterpart: {shown(parts.query)}: write certificates into `tls`")
    draft.note(
        0,
        "a link leads to a node: put one beside that broker, and let it accept this one there;"
        " or write the node's own address, ws://HOST:7600/link",
    )


def _vhost(path: str) -> str:
    return path if path not in ("", "/") else ""


def _options(draft: Draft, value: Fields, known: set[str]) -> None:
    """Say of every other option what becomes of it."""
    for option, given in value.items():
        if option in known:
            continue
        if option in _NEEDLESS:
            draft.note(0, f"not needed: {option}: {_NEEDLESS[option]}")
        else:
            why = _NOTHING.get(option, "nothing here does that")
            draft.note(0, f"no counterpart: {option} {shown(str(given))}: {why}")


class _Shovel:
    """One end is this broker, the other one the parent's."""

    _KNOWN: Final = {
        f"{end}-{what}" for end in ("src", "dest") for what in ("uri", "queue", "exchange", "exchange-key")
    }

    def __init__(self, name: str, value: Fields, vhost: str) -> None:
        source, destination = _uris(value.get("src-uri")), _uris(value.get("dest-uri"))
        leaves = bool(source) and all(map(_is_here, source))
        far, near = (destination, source) if leaves else (source, destination)
        self.draft = draft = _draft(name, vhost, *filter(_is_here, near[:1]))
        if not far or all(map(_is_here, far)):
            draft.note(0, "both ends are this broker: leave that to a shovel, or to a binding")
            return
        if not leaves and not all(map(_is_here, destination)):
            draft.note(0, "neither end is this broker: the destination was taken for it")
        _lead(draft, far)
        is_read = self._passes(value, "out" if leaves else "in")
        _options(draft, value, self._KNOWN if is_read else {"src-uri", "dest-uri"})

    def _passes(self, value: Fields, direction: Any) -> bool:
        """Whether it is told what passes: else each option of it is left."""
        queue, exchange = value.get("src-queue"), value.get("src-exchange")
        target, key = value.get("dest-queue") or value.get("dest-exchange"), value.get("dest-exchange-key")
        if isinstance(queue, str):
            self.draft.rule(0, "queue", queue, direction, "", "")
            if target not in (None, queue):
                self._renamed(queue, target)
        elif isinstance(exchange, str):
            self._topics(value.get("src-exchange-key"), direction)
            self._of_exchange(exchange)
            if value.get("dest-queue"):
                self.draft.note(
                    0,
                    f"no counterpart: topics went to queue {shown(str(target))}: bind it to the exchange",
                )
        else:
            self.draft.note(0, "no counterpart: its source is neither a queue nor an exchange")
            return False
        if key:
            self.draft.note(
                0, f"no counterpart: routing key {shown(str(key))} for all: a message keeps its name"
            )
        return True

    def _topics(self, key: Any, direction: Any) -> None:
        try:
            pattern = from_amqp(key) if isinstance(key, str) and key else "#"
        except SapwoodError as error:
            self.draft.note(0, f"no counterpart: {error}")
            return
        self.draft.rule(0, "topic", pattern, direction, "", "")

    def _renamed(self, queue: str, target: Any) -> None:
        self.draft.note(
            0,
            f"no counterpart: queue {shown(queue)} went to {shown(str(target))}: a queue has one"
            " name in the tree but for a prefix (`rules`); read it by the name it has",
        )

    def _of_exchange(self, exchange: str) -> None:
        if exchange != "amq.topic":
            self.draft.note(
                0,
                f"exchange {shown(exchange)}: topics pass through amq.topic unless the site's file names"
                " another `exchange`, or further `exchanges`",
            )


# --- federation


def _sets(parameters: list[Fields]) -> dict[str, list[Fields]]:
    """The upstreams of each set, each with the options that count for it there."""
    found: dict[str, list[Fields]] = {}
    for parameter in parameters:
        value = parameter.get("value")
        if parameter.get("component") == "federation-upstream-set" and isinstance(value, list):
            found[str(parameter.get("name"))] = [each for each in value if isinstance(each, dict)]
    return found


def _federation(name: str, values: list[Fields], vhost: str, applied: list[Fields]) -> Draft:
    """`values`: of the upstream itself, and of the sets that it is in."""
    draft = _draft(name, vhost)
    _lead(draft, _uris(values[0].get("uri")))
    for policy in applied:
        _policy(draft, policy)
    if not applied:
        draft.note(0, "no policy uses this upstream, so nothing passed: everything does now")
    for value in values:
        for key in ("queue", "exchange"):
            if value.get(key):
                draft.note(
                    0,
                    f"no counterpart: {key} {shown(str(value[key]))} of the upstream has another name",
                )
        _options(draft, value, {"uri", "queue", "exchange", "upstream"})
    return draft


def _policies(name: str, policies: list[Fields], sets: dict[str, list[Fields]]) -> Iterator[Fields]:
    """The policies that federate with this upstream."""
    for policy in policies:
        definition = policy.get("definition")
        if not isinstance(definition, dict):
            continue
        chosen = definition.get("federation-upstream-set")
        members = [each.get("upstream") for each in sets.get(str(chosen), ())]
        named = definition.get("federation-upstream")
        if name == named or chosen == "all" or name in members or _like(definition, name):
            yield policy


def _like(definition: Fields, name: str) -> bool:
    """Does the policy mean this upstream by a regular expression? One that is none means nobody."""
    expression = definition.get("federation-upstream-pattern")
    try:
        return isinstance(expression, str) and re.search(expression, name) is not None
    except re.error:
        return False


def _policy(draft: Draft, policy: Fields) -> None:
    """A policy names queues or exchanges by a regular expression."""
    expression, applies = str(policy.get("pattern", "")), str(policy.get("apply-to", "all"))
    said = f"policy {shown(str(policy.get('name', '')))}"
    if applies in ("exchanges", "all"):
        draft.rule(0, "topic", "#", "in", "", "")
        draft.note(
            0,
            f"{said}: of the exchanges {shown(expression)} the topics pass that consumers here subscribe to",
        )
    if applies in ("queues", "classic_queues", "quorum_queues", "all"):
        pattern = _queues(expression)
        if pattern:
            draft.rule(0, "queue", pattern, "in", "", "")
        else:
            draft.note(0, f"{said}: no counterpart: queues {shown(expression)}: write a rule `queue:PATTERN`")


def _queues(expression: str) -> str:
    """A plain name, or everything; '' if the expression says more than a rule can."""
    if expression in ("", ".*", "^.*", "^.*$", "^"):
        return "#"
    plain = re.fullmatch(r"\^?((?:[A-Za-z0-9_-]|\\.)+)\$", expression)
    return plain[1].replace("\\", "") if plain and expression.startswith("^") else ""


def _usual_port(scheme: str) -> int:
    amqp = protocol_of("amqp")
    return amqp.tls_port if scheme == amqp.tls_scheme else amqp.port
