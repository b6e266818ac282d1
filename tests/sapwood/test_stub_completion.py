"""The commands of generated modules are completed by bash, zsh and fish, from what they print."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces" / "python"
ASK = """
eval "$(cat)"
read -r _ _ function name <<< "$(complete -p stock)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


ZSH = """
compdef() { function=$1 }
compadd() { shift; print -rl -- ${(M)@:#$words[CURRENT]*} }
_files() { print -rl -- $words[CURRENT]*(N) }
eval "$(cat)"
words=("$@")
CURRENT=$#
$function
"""
"""Zsh completes at a terminal alone: the three commands by which it is told are played."""
FISH = """
source -
complete -C "$argv"
"""
WORDS = [
    (("le",), ["level"]),
    (("h",), ["history.movements"]),
    (("--que",), ["--queue"]),
    (("--queue", ""), []),
    (("--queue", "level", "res"), ["reserve"]),
    (("level", "--"), ["--help", "--article"]),
    (("--json", "reserve", "--p"), ["--pieces"]),
    (("reserve", "--pieces", "--a"), []),
    (("--ca", "call"), ["caller.py"]),
]


def printed(*words: str, module: str = "chain.stock_v1") -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", module, *words)
    return subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)


def bash(script: str, text: str, *words: str) -> list[str]:
    found = shutil.which("bash")
    assert found is not None
    command = (found, "--norc", "-c", script, "bash", *words)
    done = subprocess.run(command, cwd=EXAMPLES, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def asked(command: tuple[str, ...], text: str, **environment: str) -> list[str]:
    done = subprocess.run(
        command, cwd=EXAMPLES, input=text, env=os.environ | environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def stock() -> str:
    done = printed("--completion", "stock")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def stock_in() -> dict[str, str]:
    """Each text that is printed for the other shells."""
    return {shell: printed("--completion", "stock", shell).stdout for shell in ("zsh", "fish")}


@pytest.mark.parametrize(("words", "found"), WORDS)
def test_bash_completes_functions_options_and_files(
    stock: str, words: tuple[str, ...], found: list[str]
) -> None:
    assert bash(ASK, stock, "stock", *words) == (found or [""])


@pytest.mark.parametrize(("words", "found"), WORDS)
def test_zsh_completes_functions_options_and_files(
    stock_in: dict[str, str], words: tuple[str, ...], found: list[str]
) -> None:
    command = ("zsh", "-f", "-c", ZSH, "zsh", "stock", *words)
    assert asked(command, stock_in["zsh"]) == found


@pytest.mark.parametrize(("words", "found"), WORDS)
def test_fish_completes_functions_options_and_files(
    stock_in: dict[str, str], words: tuple[str, ...], found: list[str], tmp_path: Path
) -> None:
    command = ("fish", "--no-config", "-c", FISH, " ".join(("stock", *words)))
    shown = asked(command, stock_in["fish"], HOME=str(tmp_path))
    assert [line.partition("\t")[0] for line in shown] == found


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_command_of_another_shell_calls_the_module(
    stock_in: dict[str, str], shell: str, tmp_path: Path
) -> None:
    start = "compdef() { }; " if shell == "zsh" else ""
    read = 'eval "$(cat)"' if shell == "zsh" else "source -"
    lines = asked((shell, "-c", f"{start}{read}; stock level --help"), stock_in[shell], HOME=str(tmp_path))
    assert "How many pieces of an article are here." in lines


def test_a_shell_that_is_not_known_is_refused() -> None:
    done = printed("--completion", "stock", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no completion for tcsh: expected one of bash, zsh, fish" in done.stderr


def test_a_channel_is_completed_as_a_file() -> None:
    tills = printed("--completion", "stock", module="chain.tills_v1").stdout
    assert bash(ASK, tills, "stock", "install", "--program", "till_s") == ["till_server.py"]


def test_the_command_calls_the_module(stock: str) -> None:
    lines = bash('eval "$(cat)"; stock level --help', stock)
    assert "How many pieces of an article are here." in lines


def test_a_name_that_bash_would_read_as_more_is_refused() -> None:
    done = printed("--completion", "x; rm -r /")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a name of letters, digits, _ and -, found 'x; rm -r /'" in done.stderr
