"""Whatever comes from outside, each parser returns or raises an error that it documents. A short run;
the long one is `tests/hostile/mutate.py`, and what that found is tried here for ever.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import msgspec
import pytest
from mutate import Progress
from parsers import PARSERS, Parser
from trials import Fault, TooSlow, attempt, still_well, watched
from worlds import World

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


def mutated(folder: Path, *words: str) -> list[str]:
    program = [sys.executable, str(HERE / "mutate.py"), "--found", str(folder), *words]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_the_program_gives_each_parser_its_inputs_within_bounded_memory(tmp_path: Path) -> None:
    lines = mutated(tmp_path, "--inputs", "300", "--parsers", "packet", "core", "yaml")
    assert [line.split()[:4] for line in lines] == [
        [name, "well,", "blind,", "300"] for name in ("core", "packet", "yaml")
    ]


def test_a_run_goes_on_with_what_the_last_one_left_and_begins_again_with_other_inputs(tmp_path: Path) -> None:
    names = ["packet", "yaml"]
    kept = tmp_path / "progress.json"
    progress = Progress(kept, 1000, names)
    progress.add("packet", 1000, 1.0, guided=False, faulty=False)
    progress.add("yaml", 400, 9.0, guided=True, faulty=False)
    (line,) = mutated(tmp_path, "--inputs", "1000", "--parsers", *names)
    assert line.split()[0] == "yaml"
    assert "600 inputs" in line
    after = Progress(kept, 1000, names)
    assert (after.round, after.left("packet"), after.left("yaml")) == (2, 1000, 1000)
    assert after.of("yaml").runs == 0


def test_a_fault_is_kept_with_what_was_said_before_it() -> None:
    class Brittle(World):
        def hear(self, packet: bytes) -> None:
            assert len(self.said) < 3

    world = Brittle()
    parser = Parser("brittle", world.play, (), (b"",), world=world)
    attempt(parser, msgspec.msgpack.encode([b"a"]))
    with pytest.raises(Fault) as caught:
        attempt(parser, msgspec.msgpack.encode([b"b", b"c"]))
    assert msgspec.msgpack.decode(caught.value.data) == [b"a", b"b", b"c"]
    with pytest.raises(Fault):
        attempt(parser, caught.value.data, alone=True)
    attempt(parser, msgspec.msgpack.encode([b"a"]), alone=True)
