"""What was sent, what must arrive and what did, by the ids inside the payloads.

Law: only a send that a node confirmed must arrive; only what a receiver handled has arrived. A receiver
keeps the ids of messages it has handled, as every service should: a message that is given again after a
crash, with the id that it always had, is acknowledged and not handled twice. It is counted as `again`.
"""

import json
from collections import Counter
from dataclasses import dataclass, field

from broker.cli.demo.plan import Parcel


@dataclass(slots=True)
class Account:
    """One kind of messages. `expected` counts deliveries: a topic message has several receivers."""

    title: str
    parcels: list[Parcel]
    confirmed: set[str] = field(default_factory=set)
    handled: Counter[tuple[str, str]] = field(default_factory=Counter)
    again: int = 0

    @property
    def expected(self) -> set[tuple[str, str]]:
        """(receiver, id) of every delivery that a confirmed send owes."""
        return {
            (receiver, parcel.id)
            for parcel in self.parcels
            if parcel.id in self.confirmed
            for receiver in parcel.receivers
        }

    @property
    def delivered(self) -> int:
        return len(self.handled)

    @property
    def missing(self) -> int:
        """On their way still, or lost: only the nodes know."""
        return len(self.expected - self.handled.keys())

    @property
    def duplicated(self) -> int:
        return sum(count - 1 for count in self.handled.values())

    @property
    def unsent(self) -> int:
        return len(self.parcels) - len(self.confirmed)

    @property
    def complete(self) -> bool:
        return not (self.unsent or self.missing or self.duplicated)


class Ledger:
    """All accounts, and each receiver's memory of message ids."""

    def __init__(self, accounts: dict[str, list[Parcel]]) -> None:
        self.accounts = [Account(title, parcels) for title, parcels in accounts.items()]
        self._account_of = {parcel.id: account for account in self.accounts for parcel in account.parcels}
        self._seen: set[tuple[str, str]] = set()
        self.strange = 0

    def __repr__(self) -> str:
        return (
            f"<Ledger delivered={sum(account.delivered for account in self.accounts)} strange={self.strange}>"
        )

    def confirm(self, parcel: Parcel) -> None:
        """A node has this message on its disk."""
        self._account_of[parcel.id].confirmed.add(parcel.id)

    def handle(self, receiver: str, message_id: str, payload: bytes) -> None:
        """A receiver got this message. `message_id` is the tree's id of it, which never changes."""
        try:
            identity = str(json.loads(payload)["id"])
            account = self._account_of[identity]
        except (ValueError, KeyError, TypeError):
            self.strange += 1
            return
        if (receiver, message_id) in self._seen:
            account.again += 1
            return
        self._seen.add((receiver, message_id))
        account.handled[receiver, identity] += 1

    @property
    def moved(self) -> int:
        """It grows with every message that is taken, and with every one that arrives."""
        return sum(len(account.confirmed) + account.delivered + account.again for account in self.accounts)

    @property
    def complete(self) -> bool:
        """Everything was taken, everything has arrived once, nothing else came."""
        return not self.strange and all(account.complete for account in self.accounts)

    @property
    def all_arrived(self) -> bool:
        """Nothing is missing: there is nothing left to wait for."""
        return not any(account.unsent or account.missing for account in self.accounts)

    def received_by(self, receiver: str) -> int:
        return sum(
            count
            for account in self.accounts
            for (name, _), count in account.handled.items()
            if name == receiver
        )
