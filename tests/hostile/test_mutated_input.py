"""Whatever comes from outside, each parser returns or raises an error that it documents. A short run;
the long one is `tests/hostile/mutate.py`, and what that found is tried here for ever.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest
from parsers import PARSERS, Parser
from trials import Fault, TooSlow, attempt, still_well, watched

HERE = Path(__file__).parent
SEEDS = sorted(path for path in (HERE / "seeds").glob("*/*") if path.is_file())
BY_NAME = {parser.name: parser for parser in PARSERS}


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_right_inputs_are_taken(parser: Parser) -> None:
    for example in parser.examples:
        attempt(parser, example, alone=True)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_wrong_inputs_are_refused_by_the_errors_that_are_documented(parser: Parser) -> None:
    mutator, random = parser.mutator(), Random(7)
    with watched():
        for _ in range(max(int(5000 * parser.share), 50)):
            still_well()
            attempt(parser, mutator.next(random))
        if parser.world is not None:
            still_well()
            parser.world.end()


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_was_found_once_is_never_found_again(file: Path) -> None:
    with watched():
        attempt(BY_NAME[file.parent.name], file.read_bytes(), alone=True)


def test_a_machine_that_is_busy_with_other_things_is_no_fault_and_an_input_without_end_is_one() -> None:
    def waits(_: bytes) -> None:
        time.sleep(1.5)

    with watched(1.0):
        attempt(Parser("waits", waits, (), (b"",)), b"")
    with watched(0.01), pytest.raises(Fault, match=TooSlow.__name__):
        attempt(Parser("stands", lambda _: threading.Event().wait(60), (), (b"",)), b"")


def test_the_mutators_find_a_parser_that_does_not_keep_its_promise() -> None:
    def breaks(data: bytes) -> None:
        if data.startswith(b"x"):
            raise KeyError("not documented")

    broken = Parser("broken", breaks, (ValueError,), (b"abc",))
    mutator, random = broken.mutator(), Random(1)
    inputs = (mutator.next(random) for _ in range(200_000))
    with pytest.raises(Fault, match="broken: KeyError") as caught:
        attempt(broken, next(data for data in inputs if data.startswith(b"x")))
    assert caught.value.data.startswith(b"x")
    endless = Parser("endless", lambda data: any(False for _ in iter(int, 1)), (ValueError,), (b"",))
    with watched(0.2), pytest.raises(Fault, match=TooSlow.__name__):
        attempt(endless, b"")


def test_the_program_runs_parsers_within_bounded_memory(tmp_path: Path) -> None:
    words = [sys.executable, str(HERE / "mutate.py"), "--inputs", "300", "--found", str(tmp_path)]
    done = subprocess.run([*words, "--parsers", "packet", "bundle", "yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        [name, "well,"] for name in ("packet", "bundle", "yaml")
    ]
