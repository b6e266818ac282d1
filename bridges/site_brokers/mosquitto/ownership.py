"""One node at one broker: whoever comes asks first, and a holder answers.

A holder has a retained message at `$sapwood/bridge/holder`. Retained messages outlive their authors, so it
proves nothing; who comes asks at `$sapwood/bridge/who`, and a living holder publishes its claim again. Of two
that ask at the same moment, the one whose run has the smaller name goes on.

Law: no answer for `PATIENCE` seconds, and the broker is ours. A run is a process: a copied database is
another run, and refused like any other node.
"""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bridges.site_brokers.mosquitto.names import OURS

HOLDER: Final = OURS + "holder"
WHO: Final = OURS + "who"
PATIENCE: Final = 2.0
SHORT: Final = 0.5


class Holder(msgspec.Struct):
    """The node that says so: `run` is one process of the node, `store` its database."""

    run: str
    store: str
    node: str
    tree: str


class Ownership:
    """Ours. `say(topic, payload, retained)` publishes; `lost(text)` is called when another has the broker.

    `echoed`: what we said has come back, so we may speak and hear.
    """

    def __init__(self, store: str, node: str, tree: str) -> None:
        self._me = Holder(secrets.token_hex(8), store, node, tree)
        self._say: Callable[[str, bytes, bool], None] = lambda topic, payload, retained: None
        self._lost: Callable[[str], None] = lambda text: None
        self.held = False
        self.echoed = False
        self.before: Holder | None = None

    def __repr__(self) -> str:
        return f"<Ownership of {self._me.node} {'held' if self.held else 'asked for'}>"

    @property
    def run(self) -> str:
        return self._me.run

    @property
    def patience(self) -> float:
        """How long to wait for an answer: shorter where nobody, or we ourselves, had the broker last."""
        stranger = self.before is not None and self.before.store != self._me.store
        return PATIENCE if stranger else SHORT

    def ask(self, say: Callable[[str, bytes, bool], None], lost: Callable[[str], None]) -> None:
        """On a new connection, subscribed to both topics."""
        self._say, self._lost, self.held, self.echoed = say, lost, False, False
        say(WHO, msgspec.json.encode(self._me), False)

    def hold(self) -> None:
        """Nobody has answered."""
        self.held = True
        self._say(HOLDER, msgspec.json.encode(self._me), True)

    def leave(self) -> None:
        if self.held:
            self.held = False
            self._say(HOLDER, b"", True)

    def heard(self, topic: str, payload: bytes, retained: bool) -> None:
        """A message at one of the two topics."""
        try:
            other = msgspec.json.decode(payload, type=Holder) if payload else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            return
        if other is not None and other.run == self._me.run:
            self.echoed = True
        if other is None or other.run == self._me.run:
            return
        if topic == HOLDER and retained:
            self.before = other
        elif topic == HOLDER:
            self._meet(other, other.run < self._me.run or not self.held)
        elif self.held:
            self._say(HOLDER, msgspec.json.encode(self._me), True)
        else:
            self._meet(other, other.run < self._me.run)

    def _meet(self, other: Holder, theirs: bool) -> None:
        if theirs:
            self.held = False
            self._lost(
                f"node {other.node!r} of tree {other.tree!r} has this broker already (its store is"
                f" {other.store[:8]}…, ours {self._me.store[:8]}…): one node at one broker; take site_broker"
                " out of one of the two files, or stop the other node"
            )
        elif self.held:
            self._say(HOLDER, msgspec.json.encode(self._me), True)
