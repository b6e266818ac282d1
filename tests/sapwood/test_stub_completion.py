"""The commands of generated modules are completed by bash, from what they print."""

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


@pytest.fixture(scope="module")
def stock() -> str:
    done = printed("--completion", "stock")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("le",), ["level"]),
        (("h",), ["history.movements"]),
        (("--que",), ["--queue"]),
        (("--queue", ""), [""]),
        (("--queue", "level", "res"), ["reserve"]),
        (("level", "--"), ["--help", "--article"]),
        (("--json", "reserve", "--p"), ["--pieces"]),
        (("reserve", "--pieces", "--a"), [""]),
        (("--ca", "call"), ["caller.py"]),
    ],
)
def test_bash_completes_functions_options_and_files(
    stock: str, words: tuple[str, ...], found: list[str]
) -> None:
    assert bash(ASK, stock, "stock", *words) == found


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
