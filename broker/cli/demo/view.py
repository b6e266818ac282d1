"""What the demo shows while it runs: the tree, live, on a terminal; a line for each event elsewhere."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from broker.cli.demo.ledger import Ledger
from broker.cli.demo.plan import Chain, DemoNode
from broker.cli.demo.processes import Status, is_linked

QUIET_LINES: Final = 2.0
LAST_EVENTS: Final = 8
WIDTH: Final = 110


@dataclass(slots=True)
class Scene:
    """Everything that there is to see at one moment. `started`: on the monotonic clock, in seconds."""

    chain: Chain
    ledger: Ledger
    statuses: dict[str, Status | None] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    line_cut: bool = False
    stopping: bool = False
    events: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    @property
    def seconds(self) -> float:
        return self.clock() - self.started

    def totals(self) -> str:
        accounts = self.ledger.accounts
        sent = sum(len(account.confirmed) for account in accounts)
        delivered = sum(account.delivered for account in accounts)
        waiting = sum(account.missing for account in accounts)
        return f"{sent} sent · {delivered} delivered · {waiting} on their way"


class View(Protocol):
    """Where the demo is shown. A context manager."""

    def __enter__(self) -> "View": ...

    def __exit__(self, *exception: object) -> None: ...

    def say(self, text: str) -> None:
        """Something happened."""

    def update(self) -> None:
        """The scene has changed."""


class PlainView:
    """Lines, for logs and pipes; now and then one with the totals."""

    def __init__(self, scene: Scene, console: Console) -> None:
        self._scene = scene
        self._console = console
        self._next = 0.0

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def say(self, text: str) -> None:
        self._scene.events.append(text)
        self._console.print(f"{self._scene.seconds:5.1f} s  {text}", markup=False)

    def update(self) -> None:
        if self._scene.seconds >= self._next:
            self._next = self._scene.seconds + QUIET_LINES
            self._console.print(f"{self._scene.seconds:5.1f} s  {self._scene.totals()}", markup=False)


class LiveView:
    """The tree, redrawn in place."""

    def __init__(self, scene: Scene, console: Console) -> None:
        self._scene = scene
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.update()
        self._live.stop()

    def say(self, text: str) -> None:
        self._scene.events.append(f"{self._scene.seconds:5.1f} s  {text}")
        self.update()

    def update(self) -> None:
        self._live.update(draw(self._scene), refresh=True)


def draw(scene: Scene) -> Group:
    """The scene as a tree, with the totals and the latest events below."""
    tree = Tree(_label(scene, scene.chain.root))
    _grow(scene, tree, scene.chain.root)
    events = Text("\n".join(scene.events[-LAST_EVENTS:]), style="dim")
    return Group(tree, Text(scene.totals(), style="bold"), events)


def _grow(scene: Scene, tree: Tree, place: DemoNode) -> None:
    for child in scene.chain.children(place.name):
        branch = tree.add(_label(scene, child))
        _grow(scene, branch, child)


def _label(scene: Scene, place: DemoNode) -> Text:
    state, style = state_of(scene, place)
    received = scene.ledger.received_by(place.name)
    label = Text(f"{place.name:<12}")
    label.append(f"{state:<22}", style=style)
    if place.role != "branch":
        label.append(f"{received:>6} received")
    return label


def state_of(scene: Scene, place: DemoNode) -> tuple[str, str]:
    """A node's state in words, and a colour."""
    status = scene.statuses.get(place.name)
    if place.name in scene.killed:
        return "killed", "bold red"
    if status is None:
        return ("stopped", "dim") if scene.stopping else ("starting", "yellow")
    if not is_linked(status):
        cut = scene.line_cut and place.name == scene.chain.region.name
        return ("line to HQ is cut", "bold red") if cut else ("connecting", "yellow")
    return "running", "green"


def make_console(on_stderr: bool) -> Console:
    """As wide as the terminal; wide enough for the report where there is none."""
    found = Console(stderr=on_stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=on_stderr, highlight=False, width=WIDTH)


def make_view(scene: Scene, console: Console) -> View:
    """The tree where there is a terminal, lines elsewhere."""
    return LiveView(scene, console) if console.is_terminal else PlainView(scene, console)
