"""Bridges of Mosquitto: the sections `connection` of a mosquitto.conf, as its manual page has them.

Law: every option of a bridge is either carried over, or said to be needless, or said to have no counterpart.
The other options of the file configure the broker itself, which stays as it is.
"""

import re
from pathlib import Path
from typing import Final

from config.convert.draft import (
    AT_PARENT,
    Direction,
    Draft,
    Option,
    legal_name,
    needless,
    nothing_like_it,
)
from config.kinds import shown
from config.schemes import protocol_of
from sapwood.protocol.errors import PatternError
from treeconnector.patterns import from_mqtt

_DIRECTIONS: Final = ("in", "out", "both")
_PORT: Final = protocol_of("mqtt").port


def read(text: str) -> list[Draft]:
    """Return a draft for each `connection`, in the file's order."""
    drafts: list[Draft] = []
    others: dict[str, None] = {}
    listeners = [_Listener("")]
    for line, words in enumerate(text.splitlines(), 1):
        option, _, value = words.strip().partition(" ")
        value = value.strip()
        if not option or option.startswith("#"):
            continue
        if option in ("listener", "port"):
            listeners.append(_Listener(value))
        elif option in ("protocol", "certfile"):
            listeners[-1].take(option, value)
        elif option == "connection":
            drafts.append(Draft(value, line, legal_name(value)))
        elif not drafts or not _takes(drafts[-1], line, option, value):
            others[option] = None
    for draft in drafts:
        _lead_here(draft, [each for each in listeners if each.port] or listeners)
        draft.ways = [_with_tls(way) if draft.encrypted else way for way in draft.ways]
        _leave_out_halves(draft)
        draft.stays(others)
    return drafts


class _Listener:
    """Where the broker listens: `PORT [HOST]`, and what the lines below it say. `port`: '' if not TCP's."""

    def __init__(self, value: str) -> None:
        port, _, host = value.partition(" ")
        self.port = port if port.isdigit() and port != "0" else ""
        host = host.strip()
        self.host = host if host and host not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 - compared
        self.encrypted = False

    def take(self, option: str, value: str) -> None:
        if option == "certfile":
            self.encrypted = True
        elif value == "websockets":
            self.port = ""

    @property
    def uri(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.encrypted else ''}://{host}:{self.port or _PORT}"


def _lead_here(draft: Draft, listeners: list[_Listener]) -> None:
    """The node uses the first listener without TLS, since it stands beside the broker; else the first."""
    listener = next((each for each in listeners if not each.encrypted), listeners[0])
    draft.broker["uri"] = listener.uri
    if listener.encrypted:
        draft.note(0, "the broker listens with TLS only: name its authority in `site_broker`, `tls`, `ca`")


def _takes(draft: Draft, line: int, option: str, value: str) -> bool:
    """Whether it is an option of a bridge, or is said to be missing."""
    known = OPTIONS.get(option)
    if known is not None:
        known(draft, line, value)
    elif option.startswith("bridge_"):
        draft.note(line, f"no counterpart: {option} is not known")
    elif option == "include_dir":
        draft.note(line, f"the files in {shown(value)} were not read: convert them one by one")
    else:
        return False
    return True


def _leave_out_halves(draft: Draft) -> None:
    """Options that Mosquitto itself makes nothing of alone, and a user that has no password."""
    for one, other in (("certificate", "key"), ("key", "certificate")):
        if one in draft.tls and other not in draft.tls:
            draft.note(0, f"left out: the {one} of the bridge: it has no {other} beside it")
            del draft.tls[one]
    if draft.tls and not draft.encrypted:
        draft.note(0, "left out: bridge_insecure: nothing encrypts this bridge")
        draft.tls.clear()
    if "user" in draft.broker and "secret_env" not in draft.broker:
        draft.password_here(0)


def _with_tls(way: str) -> str:
    return way.replace("mqtt://", "mqtts://", 1)


# --- options


def _address(draft: Draft, line: int, value: str) -> None:
    for one in value.split():
        if one.count(":") > 1 and not one.startswith("["):
            one = f"[{one}]"
        host, _, port = one.rpartition(":") if re.search(r":[0-9]+$", one) else (one, "", "")
        draft.way(line, f"mqtt://{host}:{port or _PORT}")
    draft.note(
        line,
        "a link leads to a node: put one beside that broker, and let it accept this one there; or write the"
        " node's own address, ws://HOST:7600/link",
    )


def _topic(draft: Draft, line: int, value: str) -> None:
    """`topic PATTERN [out|in|both] [QOS] [LOCAL-PREFIX] [REMOTE-PREFIX]`"""
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', value)]
    words += [""] * (5 - len(words))
    pattern, way, qos, here, there, *more = words
    if more:
        draft.note(line, f"left out: {shown(' '.join(more))} behind the prefixes of a topic")
    direction = way.lower() or "out"
    if direction not in _DIRECTIONS:
        draft.note(line, f"left out: {shown(way)} is no direction: expected in, out or both")
        return
    if pattern.startswith("$share/"):
        draft.note(line, "no counterpart: a shared subscription is a queue here: see `queue_prefix`")
        return
    if (here or pattern).startswith("$"):
        draft.note(line, "no counterpart: what begins with $ belongs to one broker, and never leaves it")
        return
    try:
        filters = from_mqtt(pattern) if pattern else ""
    except PatternError as error:
        draft.note(line, f"no counterpart: {error}")
        return
    before = len(draft.rules)
    spelled: Direction = "in" if direction == "in" else "out" if direction == "out" else "both"
    draft.rule(line, "topic", filters, spelled, here, there)
    if len(draft.rules) > before and (qos or "0") == "0":
        draft.note(line, "QoS 0 crossed this bridge: here the producer's own QoS holds on the whole way")


def _remote_name(draft: Draft, line: int, value: str) -> None:
    draft.site = legal_name(value) or draft.site


def _user_there(draft: Draft, line: int, value: str) -> None:
    draft.user = value


def _password_there(draft: Draft, line: int, value: str) -> None:
    draft.note(line, f"the password stays out of the file: set {AT_PARENT} in the node's environment")


def _user_here(draft: Draft, line: int, value: str) -> None:
    draft.broker["user"] = value


def _password_here(draft: Draft, line: int, value: str) -> None:
    draft.password_here(line)


def _file(name: str) -> Option:
    def take(draft: Draft, line: int, value: str) -> None:
        draft.tls[name] = Path(value)

    return _encrypts(take)


def _encrypts(option: Option) -> Option:
    """An option that says: TLS on the way to the parent, whatever becomes of the option itself."""

    def take(draft: Draft, line: int, value: str) -> None:
        draft.encrypted = True
        option(draft, line, value)

    return take


def _insecure(draft: Draft, line: int, value: str) -> None:
    if value == "true":
        draft.tls["verify_hostname"] = False
        draft.note(line, "the host's name is not compared with the certificate: anybody it trusts can be it")
    elif value != "false":
        draft.note(line, f"left out: bridge_insecure {shown(value)}: expected true or false")


def _keep_alive(draft: Draft, line: int, value: str) -> None:
    if value.isdigit() and int(value):
        draft.link["keep_alive"] = float(value)
    else:
        draft.note(line, f"left out: keepalive_interval {shown(value)}: expected seconds")


def _restart(draft: Draft, line: int, value: str) -> None:
    """`restart_timeout BASE [CAP]`, or a constant."""
    numbers = [float(word) for word in value.split() if word.isdigit() and int(word)]
    if numbers:
        draft.link["backoff_max"] = max(numbers)
        draft.link["backoff_initial"] = min(*numbers, 5.0) if len(numbers) > 1 else min(numbers[0], 5.0)
    else:
        draft.note(line, f"left out: restart_timeout {shown(value)}: expected seconds")


def _start(draft: Draft, line: int, value: str) -> None:
    if value != "automatic":
        draft.note(line, f"no counterpart: start_type {shown(value)}: a node keeps its link all the time")


_ALWAYS = "what waits for an absent neighbour is kept on disk, always"
_STATE = "the state of a link is in `sapwood status`, in metrics and in the log"
_UP = "a node keeps its link all the time"
_MQTT = "it concerns MQTT alone; a link has its own frames"

OPTIONS: Final[dict[str, Option]] = {
    "address": _address,
    "addresses": _address,
    "topic": _topic,
    "remote_clientid": _remote_name,
    "clientid": _remote_name,
    "remote_username": _user_there,
    "username": _user_there,
    "remote_password": _password_there,
    "password": _password_there,
    "local_username": _user_here,
    "local_password": _password_here,
    "local_clientid": needless("the node names its own client"),
    "bridge_cafile": _file("ca"),
    "bridge_certfile": _file("certificate"),
    "bridge_keyfile": _file("key"),
    "bridge_insecure": _insecure,
    "bridge_capath": _encrypts(
        nothing_like_it("a folder of authorities: put them into one file and name it in `tls`, `ca`")
    ),
    "bridge_tls_use_os_certs": _encrypts(needless("without `tls`, `ca` the system's authorities count")),
    "bridge_psk": _encrypts(nothing_like_it("pre-shared keys for TLS: use certificates")),
    "bridge_identity": _encrypts(nothing_like_it("pre-shared keys for TLS: use certificates")),
    "bridge_alpn": nothing_like_it("ALPN"),
    "bridge_require_ocsp": nothing_like_it("OCSP"),
    "bridge_tls_version": needless("TLS 1.2 is the least"),
    "bridge_bind_address": nothing_like_it("the local address is chosen by the system"),
    "bridge_max_packet_size": nothing_like_it("`limits`, `max_message` bounds a message at every node"),
    "bridge_outgoing_retain": nothing_like_it("the retained flag crosses the tree with its message"),
    "bridge_protocol_version": needless(_MQTT),
    "bridge_attempt_unsubscribe": needless(_MQTT),
    "bridge_max_topic_alias": needless(_MQTT),
    "bridge_receive_maximum": needless(_MQTT),
    "bridge_session_expiry_interval": needless(_ALWAYS),
    "bridge_tcp_keepalive": needless("a link asks for a sign of life itself: `link`, `keep_alive`"),
    "bridge_tcp_user_timeout": needless("a link asks for a sign of life itself: `link`, `keep_alive`"),
    "bridge_reload_type": needless("a changed file counts from the node's next start"),
    "cleansession": needless(_ALWAYS),
    "local_cleansession": needless(_ALWAYS),
    "try_private": needless("the node does not take back what it delivered"),
    "notifications": nothing_like_it(_STATE),
    "notifications_local_only": nothing_like_it(_STATE),
    "notification_topic": nothing_like_it(_STATE),
    "keepalive_interval": _keep_alive,
    "restart_timeout": _restart,
    "round_robin": needless("the ways to the parent are tried in order"),
    "start_type": _start,
    "idle_timeout": needless(_UP),
    "threshold": needless(_UP),
}
