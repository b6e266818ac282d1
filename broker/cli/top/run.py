"""The loop of `sapwood top`: ask, draw, wait for a key or the interval. Ctrl-C and `q` end it well.

A node that stops answering stays on the screen as it was last, and says since when; at the first look, or
with `--once`, that is an error.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import ask
from broker.cli.node_api import NodeApi
from broker.cli.output import print_json
from broker.cli.top.keys import Keys, keyboard
from broker.cli.top.look import SORTS, Ask, Look, look, sorted_queues

SHORTEST: Final = 0.2
LONGEST: Final = 3600.0
_ANSWER_WITHIN: Final = 10.0
_PIPE_WIDTH: Final = 120


@dataclass(slots=True)
class Settings:
    """How to look. `interval`: seconds."""

    interval: float = 2.0
    sort: str = "messages"
    held: bool = False
    tree: bool = False

    def pressed(self, key: str) -> bool:
        """Do what a key says. False: end."""
        match key:
            case "q" | "Q" | "\x03" | "\x04":
                return False
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
            case " " | "p":
                self.held = not self.held
            case "+" | "=":
                self.interval = max(self.interval / 2, SHORTEST)
            case "-":
                self.interval = min(self.interval * 2, LONGEST)
        return True


def show_top(
    api: NodeApi,
    *,
    interval: float,
    sort: str,
    tree: bool = False,
    once: bool,
    plain: bool,
    as_json: bool,
) -> None:
    """Show the node until Ctrl-C, or once. Raises `CommandError`."""
    if not SHORTEST <= interval <= LONGEST:
        raise CommandError(
            f"--interval {interval:g}: expected {SHORTEST:g} to {LONGEST:g} seconds", WRONG_USE
        )
    if sort not in SORTS:
        raise CommandError(f"--sort {sort!r}: expected one of {', '.join(SORTS)}", WRONG_USE)
    asking: Ask = partial(_ask, api)
    settings = Settings(interval, sort, tree=tree)
    try:
        first = look(asking, sort=sort, tree=tree)
        if once:
            _print(first, as_json)
        elif plain or as_json or not sys.stdout.isatty():
            _go_on(asking, settings, first, as_json)
        else:
            _live(asking, settings, first)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        _leave_quietly()


def _ask(api: NodeApi, path: str) -> object:
    return ask(api.url, path, token=api.token, tls=api.tls, timeout=_ANSWER_WITHIN)


def _again(asking: Ask, settings: Settings, before: Look) -> Look:
    """The next look; the last one, with the reason, if the node does not answer."""
    try:
        return look(asking, before, sort=settings.sort, tree=settings.tree)
    except CommandError as error:
        return replace(before, problem=f"for {time.monotonic() - before.at:.0f} s: {error}")


def _go_on(asking: Ask, settings: Settings, first: Look, as_json: bool) -> None:
    """One look after the other, for pipes and for terminals that cannot be drawn on."""
    latest = first
    while True:
        _print(latest, as_json)
        time.sleep(settings.interval)
        latest = _again(asking, settings, latest)


def _print(found: Look, as_json: bool) -> None:
    if as_json:
        print_json(found.as_json())
        return
    from rich.console import Console

    from broker.cli.top.view import frame

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False)
    console.print(frame(found, width))
    sys.stdout.flush()


def _live(asking: Ask, settings: Settings, first: Look) -> None:
    """On the whole screen, which is as before at the end."""
    from rich.console import Console
    from rich.live import Live

    from broker.cli.top.view import frame, keys_line

    console = Console(highlight=False)
    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as screen:
        for found in _looks(asking, settings, first, keys):
            width, height = console.size
            footer = keys_line(width, settings.sort, settings.held, settings.interval)
            screen.update(frame(found, width, height, footer), refresh=True)


def _looks(
    asking: Ask,
    settings: Settings,
    first: Look,
    keys: Keys,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Look]:
    """A look after each interval, and the same one again after each key, until a key says: end."""
    latest, due = first, clock() + settings.interval
    while True:
        yield replace(latest, queues=sorted_queues(latest.queues, settings.sort))
        key = keys.wait(max(due - clock(), 0.0))
        if not settings.pressed(key):
            return
        if key and clock() < due:
            due = min(due, clock() + settings.interval)
            continue
        if not settings.held:
            latest = _again(asking, settings, latest)
        due = clock() + settings.interval


def _leave_quietly() -> None:
    """Whoever read what we print has gone: nothing more is written, not even at the end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
