"""The program: a node runs without what only the command line needs, and is loaded once and for all."""

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
    "arguments", [["node", "run"], ["node", "run", "--nonsense"], ["node", "run", "a", "b"]]
)
def test_other_words_are_the_command_lines(arguments: list[str]) -> None:
    ran = run("from broker.cli.program import main; main()", *arguments)
    assert ran.returncode == 2
    assert "usage: " in (ran.stderr + ran.stdout).lower()
