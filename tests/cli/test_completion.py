"""Completion: bash asks as it does after `sapwood completion bash`; zsh and fish ask the same program."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nursery import ran

SAPWOOD = [sys.executable, "-P", "-m", "broker.cli"]


def said(*words: str, **environment: str) -> str:
    done = ran(*words, **environment)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def on_the_path(tmp_path: Path) -> str:
    program = tmp_path / "sapwood"
    program.write_text(f'#!/bin/sh\nexec {" ".join(SAPWOOD)} "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sapwood comp", ["completion"]),
        ("sapwood node re", ["recover"]),
        ("sapwood config c", ["convert"]),
        ("sapwood status --tok", ["--token", "--token-file"]),
    ],
)
def test_bash_completes_commands_and_options(line: str, expected: list[str], on_the_path: str) -> None:
    words = line.split()
    script = (
        'eval "$(sapwood completion bash)"\n'
        f"COMP_WORDS=({line}) COMP_CWORD={len(words) - 1} COMP_LINE='{line}'\n"
        "complete -p sapwood >/dev/null && _sapwood_completion sapwood && printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", script],
        env=os.environ | {"PATH": on_the_path},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_what_to_ask_and_answered(shell: str) -> None:
    script = said("completion", shell)
    assert f"_SAPWOOD_COMPLETE=complete_{shell}" in script
    assert json.loads(said("completion", shell, "--json")) == script.rstrip("\n")
    asked = {"_SAPWOOD_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "sapwood node re"}
    assert "recover" in said(**asked, _TYPER_COMPLETE_FISH_ACTION="get-args")


def test_an_unknown_shell_is_wrong_use() -> None:
    done = ran("completion", "csh")
    assert (done.returncode, done.stderr) == (
        2,
        "sapwood: no completion for 'csh': expected bash, zsh, fish\n",
    )


@pytest.mark.parametrize("command", ["", "node", "node run", "queues", "dead list", "audit"])
def test_h_is_help_everywhere(command: str) -> None:
    assert "usage:" in said(*command.split(), "-h").lower()
