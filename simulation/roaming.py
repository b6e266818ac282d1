"""Random histories of bundles that are divided: the account of `simulation.chaos`, message by message.

Readers go from site to site, acknowledge any one message of what they have, and come and go so often that
messages die of it; others expire, or find no queue. Dead letters are given back, whole or in part, where they
lie. At the end every message has been acknowledged, and none came twice without a word.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from sapwood.protocol.session_frames import Acknowledge
from simulation.actions import Action
from simulation.chaos import Chaos, Tree
from simulation.clients import SimulatedConsumer

SMALL: Tree = [("hq", "", "root"), ("r1", "hq", "branch"), ("s1", "r1", "leaf"), ("s3", "r1", "leaf")]
SMALL_MESH: Tree = [
    ("hq", "", "root", "hq2"),
    ("hq2", "", "root", "hq"),
    ("r1", "hq", "branch"),
    ("s1", "r1", "leaf"),
    ("s3", "hq", "leaf"),
]
_EVERY = -1
_SOON = 700


class Roaming(Chaos):
    """One history: see the module, and `Chaos`."""

    settings = replace(Chaos.settings, max_deliveries=2)
    destinations = ("queue:a", "queue:a", "queue:b", "queue:cell@s1")

    def __init__(self, seed: int, kinds: frozenset[str], steps: int = 400, tree: Tree = SMALL) -> None:
        super().__init__(seed, kinds | {"roam"}, steps, tree=tree)

    def _consumers(self) -> list[SimulatedConsumer]:
        readers = [
            self.forest.consumer(self._site(), f"queue:{name}", f"c-{name}{room}", auto=False, credit=room)
            for name, rooms in (("a", (1, 7, 50)), ("b", (3, 50)))
            for room in rooms
        ]
        return [*readers, self._consumer("s1", "queue:cell")]

    def _choices(self) -> list[tuple[int, Callable[[], Action | None]]]:
        """Whole steps of all sites, since bundles that are to be divided have to come somewhere."""
        chance = self.random
        choices: list[tuple[int, Callable[[], Action | None]]] = [
            (25, lambda: Action("everything")),
            (12, self._choose_send),
            (3, self._choose_passing),
            (12, lambda: Action("time", (chance.choice([0.01, 0.1, 0.5, 2.0, 10.0]),))),
            (12, self._choose_acknowledge),
            (14, lambda: Action("pick", (chance.randrange(len(self.consumers)), chance.random()))),
            (4, lambda: Action("client", (chance.randrange(len(self.consumers)),))),
            (6, lambda: Action("roam", (chance.randrange(len(self.consumers) - 1), self._site()))),
            (6, lambda: Action("return", (self._site(), chance.choice([1, 3, 100]), self._some()))),
        ]
        if "crash" in self.kinds:
            choices += [(3, self._choose_crash), (6, self._choose_boot)]
        if "split" in self.kinds:
            choices += [(3, self._choose_cut), (6, lambda: Action("dial"))]
            choices += [(2, self._choose_split), (2, lambda: Action("join"))]
        return choices

    def _some(self) -> int:
        """A mask of some messages of a bundle, or of all."""
        return self.random.getrandbits(20) if self.random.random() < 0.6 else _EVERY

    def _choose_passing(self) -> Action:
        """Messages that expire soon."""
        producer = self.random.randrange(len(self.producers))
        destination, count = self.random.choice(self.destinations), self.random.choice([1, 3, 8])
        return Action("send", (producer, destination, self.numbers + 1, count, 0, _SOON))

    # --- doing

    def _roam(self, place: int, name: str) -> None:
        """A reader goes to another site."""
        consumer = self.consumers[place]
        consumer.disconnect()
        consumer.site = self.forest[name]
        consumer.connect()

    def _pick(self, place: int, share: float) -> None:
        """A reader acknowledges one message, wherever that is among those that it has."""
        consumer = self.consumers[place]
        if consumer.connection is not None and consumer.open:
            receipt = consumer.open.pop(int(share * len(consumer.open)))
            receipt.acknowledged = True
            consumer.say(Acknowledge([(receipt.transfer, receipt.transfer)]))

    def _return(self, name: str, count: int, bits: int) -> None:
        """Some messages of the first dead letters of a site are given back."""
        site = self.forest[name]
        if site.running:
            site.core.advance(site.now)
            letters = list(site.core.custody.dead.waiting)[:count]
            site.core.dead_letters.give_back([(copy, bits) for copy in letters])

    def _settle(self) -> None:
        for _ in range(6):
            self.forest.heal(60.0)
            for site in self.forest.sites.values():
                self._return(site.name, len(site.core.custody.dead.waiting), _EVERY)
        super()._settle()
        for site in self.forest.sites.values():
            assert not site.core.custody.kept, f"{site.name} still knows of {site.core.custody.kept}"

    actions: ClassVar[dict[str, Callable[..., None]]] = {
        **Chaos.actions,
        "roam": _roam,
        "pick": _pick,
        "return": _return,
    }
