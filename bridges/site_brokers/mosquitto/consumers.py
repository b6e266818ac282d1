"""The subscriptions at a Mosquitto, by client id: learned from its log, kept, checked by its counts.

Nothing says *unsubscribe* when a client goes, so what a client has subscribed to is kept with its id: a clean
session ends with its connection, a persistent one stays subscribed while the client is away.

Law: all entries are *unsure* after a new connection of ours, until something is heard of that client, or the
broker's own count of subscriptions agrees with the table. Where the count is smaller by just the unsure
entries, they go (one of several cannot be told: they stay until a message shows that nobody reads them);
where it is larger, sessions come back of which we took the end for granted, and the rest is `unknown`.

Wrinkle: with MQTT 5 the log does not say how long a session lasts. Clean start is taken for a session that
ends with its connection, no clean start for one that stays; the count corrects both. Of whom it was not heard
how he connected, it is taken that his session stays.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from bridges.site_brokers.mosquitto.log_lines import Came, Cut, Event, Subscribed, Unsubscribed, Went
from bridges.site_brokers.mosquitto.names import SHARE

_GHOSTS: Final = 100


class Change(NamedTuple):
    """A client reads a filter from now on, or no more."""

    came: bool
    client: str
    filter: str


class ClientOnDisk(msgspec.Struct, omit_defaults=True):
    """A client on disk."""

    filters: list[str]
    clean: bool = True
    v5: bool = False


class _KnownClient:
    __slots__ = ("clean", "filters", "online", "sure", "v5")

    def __init__(self, clean: bool = True, v5: bool = False) -> None:
        self.clean = clean
        self.v5 = v5
        self.online = True
        self.sure = True
        self.filters: dict[str, int] = {}
        """With the table's `moment` when it was heard last; 0 = not since our connection."""

    def count(self, shared: bool) -> int:
        return sum(text.startswith(SHARE) == shared for text in self.filters)


class SubscriptionTable:
    """`most`: filters that it holds; more are counted in `over`. `own`: client ids that are none.

    `unknown`: subscriptions that the broker counts and nobody knows. `cut`: lines that were too long.
    `moment`: how many subscriptions were heard of.
    """

    def __init__(self, most: int, own: Iterable[str] = ()) -> None:
        self._most = most
        self._clients: dict[str, _KnownClient] = {}
        self._ghosts: OrderedDict[str, _KnownClient] = OrderedDict()
        self._size = 0
        self.moment = 0
        self.own = set(own)
        self.unknown = {False: 0, True: 0}
        self.over = 0
        self.cut = 0

    def __repr__(self) -> str:
        return f"<SubscriptionTable clients={len(self._clients)} filters={self._size} unknown={self.missing}>"

    def __contains__(self, client: object) -> bool:
        return client in self._clients or client in self.own

    def __len__(self) -> int:
        return self._size

    @property
    def missing(self) -> int:
        """Subscriptions that the broker counts and nobody knows."""
        return sum(self.unknown.values())

    def consumers(self) -> Iterator[tuple[str, str]]:
        """All pairs of client and filter."""
        for name, client in self._clients.items():
            for text in client.filters:
                yield name, text

    def heard_since(self, moment: int, name: str, text: str) -> bool:
        """Has this client been heard to subscribe to this after that moment?"""
        return self._clients[name].filters[text] > moment

    # --- what the log says

    def heard(self, event: Event) -> list[Change]:
        match event:
            case Cut():
                self.cut += 1
                return []
            case _ if event.client in self.own:
                return []
            case Came(name, clean, v5):
                return self._came(name, clean, v5)
            case Went(name, expired):
                return self._gone(name, expired)
            case Subscribed(name, text):
                return self._subscribed(name, text)
            case Unsubscribed(name, text):
                return self._unsubscribed(name, text)

    def _came(self, name: str, clean: bool, v5: bool) -> list[Change]:
        self._ghosts.pop(name, None)
        gone = self._drop(name) if clean else []
        client = self._clients.get(name)
        if client is not None:
            client.clean, client.v5, client.online, client.sure = clean, v5, True, True
        elif len(self._clients) < self._most:
            self._clients[name] = _KnownClient(clean, v5)
        return gone

    def _gone(self, name: str, expired: bool) -> list[Change]:
        client = self._clients.get(name)
        if client is None:
            return []
        client.online, client.sure = False, True
        if not (client.clean or expired):
            return []
        if client.v5 and not expired and client.filters:
            self._ghosts[name] = client
            if len(self._ghosts) > _GHOSTS:
                self._ghosts.popitem(last=False)
        return self._drop(name)

    def _drop(self, name: str) -> list[Change]:
        client = self._clients.pop(name, None)
        if client is None:
            return []
        self._size -= len(client.filters)
        return [Change(False, name, text) for text in client.filters]

    def _subscribed(self, name: str, text: str) -> list[Change]:
        client = self._clients.get(name)
        if self._size >= self._most:
            self.over += 1
            return []
        if client is None:
            client = self._clients[name] = _KnownClient(clean=False, v5=True)
        client.sure = client.online = True
        self.moment += 1
        is_known = text in client.filters
        client.filters[text] = self.moment
        if is_known:
            return []
        self._size += 1
        return [Change(True, name, text)]

    def _unsubscribed(self, name: str, text: str) -> list[Change]:
        client = self._clients.get(name)
        if client is None or text not in client.filters:
            return []
        client.sure = True
        del client.filters[text]
        self._size -= 1
        return [Change(False, name, text)]

    # --- what the broker counts

    def doubt(self) -> None:
        """We have not heard everything: whoever is here may have gone since, or come again in another way."""
        for client in self._clients.values():
            client.sure = False
            client.clean, client.v5 = False, True

    def counted(self, shared: bool, count: int) -> list[Change]:
        """The broker has `count` subscriptions, shared or not, beside our own. Only in quiet times."""
        changes: list[Change] = []
        surplus = sum(client.count(shared) for client in self._clients.values()) - count
        if surplus > 0:
            doubtful = self._doubtful(shared, surplus)
            surplus -= sum(self._clients[name].count(shared) for name in doubtful)
            changes += [change for name in doubtful for change in self._drop(name)]
        elif surplus < 0:
            for name in list(reversed(self._ghosts)):
                if -surplus >= (size := self._ghosts[name].count(shared)) > 0:
                    surplus += size
                    changes += self._back(name)
        if surplus == 0:
            for client in self._clients.values():
                client.sure = client.sure or client.count(not shared) == 0
        self.unknown[shared] = max(-surplus, 0)
        return changes

    def _doubtful(self, shared: bool, surplus: int) -> list[str]:
        """The clients that must have gone unheard: nothing was heard of them since, or their session may have
        ended.

        Nobody where only some of them have, or either those or these: one too many costs a message, one too
        few loses some.
        """
        some = [(name, client) for name, client in self._clients.items() if client.count(shared)]
        unsure = [name for name, client in some if not client.sure]
        ended = [name for name, client in some if client.sure and client.v5 and not client.online]
        fits = [
            names
            for names in (unsure, ended, unsure + ended if unsure and ended else [])
            if sum(self._clients[name].count(shared) for name in names) == surplus
        ]
        return fits[0] if len(fits) == 1 else []

    def _back(self, name: str) -> list[Change]:
        client = self._ghosts.pop(name)
        client.clean, client.online = False, False
        self._clients[name] = client
        self._size += len(client.filters)
        return [Change(True, name, text) for text in client.filters]

    def nobody(self, filters: Iterable[tuple[str, str]]) -> list[Change]:
        """The broker says that these pairs of client and filter are none."""
        return [change for name, text in filters for change in self._unsubscribed(name, text)]

    def found(self, filters: dict[str, list[str]]) -> list[Change]:
        """Sessions that the broker has kept, by client id: what is not known of them is added, as unsure."""
        changes: list[Change] = []
        for name, texts in filters.items():
            if name in self.own:
                continue
            known = name in self._clients
            for text in texts:
                changes += self._subscribed(name, text)
            if not known and name in self._clients:
                self._clients[name].sure = self._clients[name].online = False
        return changes

    # --- on disk

    def keep(self) -> dict[str, Any]:
        return {
            name: ClientOnDisk(list(client.filters), client.clean, client.v5)
            for name, client in self._clients.items()
            if client.filters
        }

    def restore(self, kept: dict[str, ClientOnDisk]) -> None:
        for name, client in kept.items():
            made = _KnownClient(client.clean, client.v5)
            made.sure = made.online = False
            made.filters = dict.fromkeys(client.filters[: max(self._most - self._size, 0)], 0)
            self._clients[name] = made
            self._size += len(made.filters)
