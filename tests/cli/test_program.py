"""The program: a node runs without what only the command line needs, and is loaded once and for all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
from broker import process
from broker.cli.program import main

def says(site, read):
    print(site.name, site.log.format, *{name.partition(".")[0] for name in sys.modules})
    return 3

process.run_node = says
main()
"""
COLLECTED = """
import gc, sys

def look(phase, _):
    loaded = sys.modules.get("broker.process")
    if phase == "start" and loaded and not hasattr(loaded, "run_node"):
        print("collected")

gc.callbacks.append(look)
from broker.cli.program import main
try:
    main()
finally:
    print(gc.isenabled())
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


@pytest.mark.parametrize(
    ("arguments", "log"),
    [(["node", "run", "FILE"], "text"), (["node", "run", "FILE", "--json"], "json")],
    ids=["text", "json"],
)
def test_a_node_has_nothing_of_the_command_line_in_memory(
    arguments: list[str], log: str, tmp_path: Path
) -> None:
    file = tmp_path / "hq.yaml"
    file.write_text("broker: {name: hq}\n", encoding="utf-8")
    ran = run(RUN, *(str(file) if each == "FILE" else each for each in arguments))
    name, format, *loaded = ran.stdout.split()
    assert (ran.returncode, name, format) == (3, "hq", log), ran.stderr
    assert {"broker", "config"} <= set(loaded)
    assert not {"typer", "click", "pydantic", "rich"} & set(loaded)


def test_an_audit_does_not_wait_for_the_command_line_of_all_else() -> None:
    ran = run(
        "import atexit, sys; atexit.register(lambda: print(*sys.modules));"
        "from broker.cli.program import main; main()",
        *("audit", "logs", "--deployment", "no-such-table.csv"),
    )
    assert (ran.returncode, ran.stderr) == (
        2,
        "sapwood: logs: there is no such file or folder: expected advisory logs\n",
    )
    assert "audit.cli" in ran.stdout.split()
    assert "typer" not in ran.stdout.split()


def test_nothing_is_collected_while_a_node_is_loaded_and_all_afterwards(tmp_path: Path) -> None:
    ran = run(COLLECTED, "node", "run", str(tmp_path / "missing.yaml"))
    assert ran.returncode == 2
    assert ran.stdout.split() == ["True"]


REFUSED = """
from broker.cli import program
from broker.cli.errors import CommandError

def refused(arguments):
    raise CommandError("the service says \\x1b]0;owned\\x07\\nno", 1)

program._do = refused
program.main()
"""


def test_an_error_that_a_peer_has_written_is_shown_and_not_obeyed() -> None:
    ran = run(REFUSED)
    assert (ran.returncode, ran.stderr) == (1, "sapwood: the service says ·]0;owned·\nno\n")


@pytest.mark.parametrize(
    ("program", "option", "said"),
    [
        (REFUSED, "--json", "the service says ·]0;owned·\nno"),
        ("from broker.cli.program import main; main()", "--help", "No space left on device"),
    ],
)
def test_an_output_that_takes_nothing_is_told_once(program: str, option: str, said: str) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-P", "-c", program, option]
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=180, check=False, env=buffered
        )
    assert (ran.returncode, ran.stderr) == (1, f"sapwood: {said}\n")


@pytest.mark.parametrize(
    "arguments", [["node", "run"], ["node", "run", "--nonsense"], ["node", "run", "a", "b"]]
)
def test_other_words_are_the_command_lines(arguments: list[str]) -> None:
    ran = run("from broker.cli.program import main; main()", *arguments)
    assert ran.returncode == 2
    assert "usage: " in (ran.stderr + ran.stdout).lower()


STANDARD = """
import os, sys
from pathlib import Path
from broker import process
from broker.cli.program import main

def says(site, read):
    print("to nobody"), print("to nobody", file=sys.stderr)
    found = [os.readlink(f"/proc/self/fd/{each}") for each in range(3)]
    Path(sys.argv[-1]).with_name("said").write_text(" ".join(found))
    return 3

process.run_node = says
main()
"""


def test_a_stream_that_is_closed_leaves_its_number_to_no_line_and_no_file(tmp_path: Path) -> None:
    file = tmp_path / "hq.yaml"
    file.write_text("broker: {name: hq}\n", encoding="utf-8")
    words = [sys.executable, "-P", "-c", STANDARD, "node", "run", str(file)]
    ran = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], timeout=180)
    assert (ran.returncode, (tmp_path / "said").read_text()) == (3, " ".join([os.devnull] * 3))


def test_an_error_that_cannot_be_said_keeps_its_exit_code(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    program = "from broker.cli.program import main; main()"
    words = [sys.executable, "-P", "-c", program, "node", "run", str(tmp_path / "ä.yaml")]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words]
    assert subprocess.run(closed, timeout=180, env=os.environ | locale).returncode == 2


@pytest.mark.parametrize(
    ("prints", "printed", "encoding"),
    [
        ("print('hq · ä')", "hq ? ?", "ascii"),
        ("print_json('ä')", '"\\u00e4"', "ascii"),
        ("print('hq · ä')", "hq ? ?", "ascii:surrogateescape"),  # the locale C without UTF-8
        ("print('\\udcff')", "?", "utf-8:strict"),
        ("print_json('\\udcff')", '"?"', "utf-8:strict"),
    ],
    ids=["text", "json", "locale C", "name of a file", "name of a file as json"],
)
def test_a_character_that_the_terminal_lacks_stops_no_command(
    prints: str, printed: str, encoding: str
) -> None:
    program = (
        "from broker.cli import program; from broker.cli.output import print_json;"
        f"program._do = lambda _: {prints}; program.main()"
    )
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    words = [sys.executable, "-P", "-c", program]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180, env=environment)
    assert (ran.stdout, ran.returncode) == (f"{printed}\n", 0), ran.stderr


HUNG_UP = """
import os, signal
from config import load as loading
from broker import process
from broker.cli.program import main

load, start, read_again = loading.load, process.Node.start, process._read_again

def loads(file):
    loading.load = load
    os.kill(os.getpid(), signal.SIGHUP)
    return load(file)

async def starts(node):
    os.kill(os.getpid(), signal.SIGHUP)
    await start(node)

def reads(node):
    read_again(node)
    print("has read again", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

loading.load, process.Node.start, process._read_again = loads, starts, reads
main()
"""


def test_a_hangup_in_the_middle_of_a_start_reads_the_file_again_and_ends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "hq.yaml"
    file.write_text("broker: {name: hq, listener: {port: 0}}\n", encoding="utf-8")
    ran = run(HUNG_UP, "node", "run", str(file))
    assert (ran.returncode, *set(ran.stdout.splitlines())) == (0, "has read again"), ran.stderr
