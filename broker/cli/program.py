"""The program `sapwood`.

A node is run without the machinery of the command line: what that loads would stay in the node's memory
(11 MB), and costs a fifth of the CPU of a start. An audit has options of its own, and needs none of it.
"""

import io
import os
import sys
from pathlib import Path

from broker.cli.errors import explain, wants_traceback


def main() -> None:
    """Do what the command line says; the only place where an error becomes a text and an exit code."""
    _open_what_is_closed()
    try:
        _do(sys.argv[1:])
    except Exception as error:
        if wants_traceback():
            raise
        from broker.cli.output import print_json, printable

        text, exit_code = explain(error)
        print(f"sapwood: {printable(text)}", file=sys.stderr)  # it may be a peer's
        try:
            if "--json" in sys.argv:
                print_json({"error": text, "exit_code": exit_code})
            sys.stdout.flush()
        except OSError:  # it takes nothing; Python would try again at its end, and tell of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(exit_code) from None


def _open_what_is_closed() -> None:
    """Have the three standard streams, and a way to print each character.

    Where one is closed (`>&-`), the next line or file that is opened has its number: it would be sent what is
    printed, and uvloop ends the process when such a line is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", errors="backslashreplace", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")  # in UTF-8 too: a file's name may have any bytes


def _do(arguments: list[str]) -> None:
    match [each for each in arguments if each != "--json"]:
        case ["node", "run", file] if not file.startswith("-"):
            from broker.cli.run import run_file

            raise SystemExit(run_file(Path(file), log_json="--json" in arguments))
        case ["audit", *_] if arguments[0] == "audit":  # an option before it is the program's own
            from audit.cli import main as run_audit

            raise SystemExit(run_audit(arguments[1:]))
        case _:
            from broker.cli.app import app

            if "_SAPWOOD_COMPLETE" in os.environ:
                from broker.cli.completion import answer_shells

                answer_shells()
            app(prog_name="sapwood")
