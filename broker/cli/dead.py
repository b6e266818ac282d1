"""`sapwood dead return|delete`: dead letters, and where they go from here."""

from dataclasses import dataclass

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import Fields, NodeApi
from broker.cli.output import print_json


@dataclass(frozen=True, slots=True)
class Which:
    """Which dead letters: all that is said must hold."""

    ids: list[str]
    reason: str
    destination: str
    all: bool = False

    def body(self) -> Fields:
        """Raises `CommandError` where nothing is said."""
        if not (self.ids or self.reason or self.destination or self.all):
            raise CommandError(
                "which dead letters? Give their ids, --reason, --destination, or --all", WRONG_USE
            )
        return {"ids": self.ids, "reason": self.reason, "destination": self.destination, "all": self.all}


def return_dead(api: NodeApi, which: Which, *, as_json: bool) -> None:
    """Route dead letters again. Raises `CommandError`."""
    found = api.change("POST", "/api/dead/return", which.body())
    if as_json:
        print_json(found)
        return
    print(f"{found['returned']} messages are routed again")
    if found["kept"]:
        print(f"{found['kept']} cannot be and stay: nobody wants them, or they are no messages at all")


def delete_dead(api: NodeApi, which: Which, *, as_json: bool) -> None:
    """Throw dead letters away. Raises `CommandError`."""
    found = api.change("DELETE", "/api/dead", which.body())
    if as_json:
        print_json(found)
    else:
        print(f"{found['messages']} dead letters are thrown away")
