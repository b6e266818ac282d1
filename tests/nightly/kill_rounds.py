"""Kill rounds: a chain of real nodes, brokers and applications under load, killed at random, with an
independent checker.

    python tests/nightly/kill_rounds.py --rounds 1000 --seed 1
    python tests/nightly/kill_rounds.py --rounds 30 --no-brokers --trial kill --trial stop

Every `--calm` faults it waits until all is back, and until everything has come. Prints what was lost, what
came twice without a mark, and how late; exits with 1 if anything was lost, or came twice unmarked, or came
later than `--latest` seconds after the last node was back.

SIGINT (Ctrl-C) is the end of the faults: all are brought back, and the verdict comes once everything that was
confirmed has had time to come. What is on its way is not lost, though journals of a killed run look so.
SIGTERM ends all at once, without a verdict.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "network"))
sys.path.insert(0, str(HERE.parent / "brokers"))
sys.path.insert(0, str(HERE.parents[1]))

from chain import Chain
from checker import Checker, Verdict
from faults import FAULTS, SHIMMED, USUAL, Killer


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, help="how many faults")
    parser.add_argument("--seed", type=int, default=1, help="the same seed does the same harm")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second of each flow")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two faults, on average")
    parser.add_argument("--longest", type=float, default=40.0, help="longest absence, seconds")
    parser.add_argument("--calm", type=int, default=20, help="faults between two calms")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds after which one is lost")
    parser.add_argument("--latest", type=float, default=0.0, help="latest that one may come; 0 = any time")
    parser.add_argument("--trial", action="append", choices=sorted(FAULTS), help="what is done; all")
    parser.add_argument("--no-brokers", action="store_true", help="without Mosquitto and RabbitMQ")
    parser.add_argument("--folder", type=Path, help="where files are kept; without it they go")
    parser.add_argument("--json", action="store_true", help="the last line in JSON")
    return parser.parse_args()


async def until_all_came(chain: Chain, patience: float) -> None:
    """Wait until everything that was confirmed up to now has come; for ever is `patience`."""
    deadline, now = time.monotonic() + patience, time.monotonic()
    while time.monotonic() < deadline:
        if Checker(chain.journals, chain.flows).missing_before(now) == 0:
            return
        chain.check_programs()
        await asyncio.sleep(0.5)


async def run(told: argparse.Namespace, folder: Path, enough: asyncio.Event) -> Verdict:
    """`enough`: no fault begins any more once it is set."""
    kinds = told.trial or [kind for kind in USUAL if kind != "kill-broker" or not told.no_brokers]
    shimmed = any(kind in SHIMMED for kind in kinds)
    chain = Chain(folder, brokers=not told.no_brokers, rate=told.rate, seed=told.seed, shimmed=shimmed)
    harm = {"kinds": kinds, "longest": told.longest, "pause": told.pause, "enough": enough}
    async with chain, Killer(chain, told.seed, **harm) as killer:
        left = told.rounds
        while left > 0 and not enough.is_set():
            await killer.rounds(min(left, told.calm))
            left -= told.calm
            await killer.until_back()
            await until_all_came(chain, told.patience)
            print(f"{sum(killer.done.values())} faults", file=sys.stderr, flush=True)
        print(f"{killer.stopped} nodes ended by themselves", *chain.shims.values(), file=sys.stderr)
        print(*(f"{kind} {count}" for kind, count in killer.done.items()), sep=", ", file=sys.stderr)
        await chain.end_senders()
        await until_all_came(chain, told.patience)
        return Verdict(Checker(chain.journals, chain.flows))


async def ended_by_signals(told: argparse.Namespace, folder: Path) -> Verdict:
    enough, loop = asyncio.Event(), asyncio.get_running_loop()
    running = asyncio.create_task(run(told, folder, enough))
    loop.add_signal_handler(signal.SIGTERM, running.cancel)
    loop.add_signal_handler(signal.SIGINT, enough.set)
    return await running


def main() -> int:
    told = options()
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as temporary:
        folder = told.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        verdict = asyncio.run(ended_by_signals(told, folder))
    print(verdict)
    if told.json:
        print(verdict.json())
    late = bool(told.latest) and verdict.late.worst > told.latest
    return 0 if verdict.well and not late else 1


if __name__ == "__main__":
    sys.exit(main())
