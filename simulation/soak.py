"""Many random histories, one after the other: the nightly test of the design's invariants.

Four kinds take turns: `chaos`, in which every step of every commit and packet is chosen, so that a crash
may come between any two; `roaming`, with readers that go about and dead letters that are given back;
`interest`, with topics that go up where they are wanted; and `weather`, in which lines have latency and time
passes by itself; each also with meshes, whose nodes are killed and cut off from each other. A history that
goes wrong is run again with ever less in it, and its shortest form is told, with the seed.
"""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from config.errors import ConfigurationError, did_you_mean
from simulation.actions import Action
from simulation.chaos import MESH, TREE, Chaos, Tree
from simulation.interest import Interest
from simulation.roaming import SMALL_MESH, Roaming
from simulation.shrinking import shortest
from simulation.weather import MESHES, Weather
from treeconnector.wording import counted


class Trial(Protocol):
    """A tree to which a history can happen, chosen as it goes (`run`) or given (`replay`)."""

    history: list[Action]

    def run(self) -> None: ...

    def replay(self, history: list[Action]) -> None: ...


def _chaos(*kinds: str, linger: float = 0.0, tree: Tree = TREE) -> Callable[[int], Trial]:
    return lambda seed: Chaos(seed, frozenset(kinds), linger=linger, tree=tree)


TRIALS: Final[dict[str, Callable[[int], Trial]]] = {
    "chaos": _chaos(),
    "chaos-crash": _chaos("crash"),
    "weather": Weather,
    "chaos-move": _chaos("crash", "move"),
    "chaos-linger": _chaos("crash", "move", linger=2.0),
    "chaos-stop": _chaos("crash", "stop", "move"),
    "chaos-mesh-stop": _chaos("crash", "stop", "split", tree=MESH),
    "chaos-restore": _chaos("crash", "restore"),
    "chaos-replace": _chaos("crash", "replace"),
    "chaos-all": _chaos("crash", "move", "restore", "replace"),
    "chaos-mesh": _chaos("crash", "split", tree=MESH),
    "weather-mesh": lambda seed: Weather(seed, shapes=MESHES),
    "chaos-mesh-move": _chaos("crash", "split", "move", tree=MESH),
    "interest": lambda seed: Interest(seed, frozenset()),
    "interest-move": lambda seed: Interest(seed, frozenset(("crash", "stop", "move"))),
    "interest-mesh": lambda seed: Interest(seed, frozenset(("crash", "split", "move")), tree=MESH),
    "roaming": lambda seed: Roaming(seed, frozenset()),
    "roaming-crash": lambda seed: Roaming(seed, frozenset(("crash", "split"))),
    "roaming-mesh": lambda seed: Roaming(seed, frozenset(("crash", "split")), tree=SMALL_MESH),
}


class Failure(msgspec.Struct):
    """A history that goes wrong. `where`: the function that found it; `text`: what it said."""

    trial: str
    seed: int
    where: str
    text: str
    history: list[Action]

    def __str__(self) -> str:
        lines = [
            f"{self.trial}, seed {self.seed}: {self.text}",
            f"found by {self.where} after {counted(len(self.history), 'action')}:",
            *(f"  {number:>3} {action}" for number, action in enumerate(self.history, 1)),
        ]
        return "\n".join(lines)

    def write(self, file: Path) -> None:
        """So that `read_failure` and `replay` find it again."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one seed went. `length`: of the history that was lived through."""

    trial: str
    seed: int
    length: int
    failure: Failure | None


def soak(first: int, count: int, only: str = "") -> Iterator[Outcome]:
    """Run `count` seeds from `first` on, the kinds of trial in turn, or `only` one of them."""
    if only and only not in TRIALS:
        raise _no_trial(only)
    names = [only] if only else list(TRIALS)
    for seed in range(first, first + count):
        yield run_seed(names[seed % len(names)], seed)


def run_seed(trial: str, seed: int) -> Outcome:
    """One random history, shortened if it fails."""
    tried = TRIALS[trial](seed)
    found = _fault(tried.run)
    failure = None if found is None else _shortened(Failure(trial, seed, *found, list(tried.history)))
    return Outcome(trial, seed, len(tried.history), failure)


def _shortened(failure: Failure) -> Failure:
    """The shortest part of its history that goes wrong in the same place, if it does so again."""

    def fails(part: list[Action]) -> bool:
        again = replay(msgspec.structs.replace(failure, history=part))
        return again is not None and again.where == failure.where

    if not fails(failure.history):
        return failure
    short = shortest(failure.history, fails)
    return replay(msgspec.structs.replace(failure, history=short)) or failure


def replay(failure: Failure) -> Failure | None:
    """Live through it again: what goes wrong now, or None."""
    if failure.trial not in TRIALS:
        raise _no_trial(failure.trial)
    found = _fault(lambda: TRIALS[failure.trial](failure.seed).replay(failure.history))
    return None if found is None else Failure(failure.trial, failure.seed, *found, failure.history)


def read_failure(file: Path) -> Failure:
    """What `Failure.write` has written. Raises `ConfigurationError` if it is something else, or not there."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Failure)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot read the history: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{file} holds no failed history: {error}") from None


def _no_trial(word: str) -> ConfigurationError:
    return ConfigurationError(
        f"{word!r} is no kind of trial: expected one of {', '.join(TRIALS)}{did_you_mean(word, TRIALS)}"
    )


def _fault(run: Callable[[], Any]) -> tuple[str, str] | None:
    """Whatever an exception says is a fault: a core never raises one. (where it was found, what it says)"""
    try:
        run()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return f"{frames[-1].name} ({type(error).__name__})", str(error) or type(error).__name__
    return None
