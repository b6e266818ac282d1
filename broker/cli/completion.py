"""Completion in a shell: the text that it evaluates, and answers to whatever it asks then."""

from typing import Final

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.output import print_json

ASKED: Final = "_SAPWOOD_COMPLETE"
"""The variable by which a shell asks; `program` looks for it."""
SHELLS: Final = ("bash", "zsh", "fish")


def print_completion(shell: str, *, as_json: bool) -> None:
    """Print what the shell is to evaluate. `as_json` puts it into a JSON text."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise CommandError(f"no completion for {shell!r}: expected {', '.join(SHELLS)}", WRONG_USE)
    text = get_completion_script(prog_name="sapwood", complete_var=ASKED, shell=shell)
    if as_json:
        print_json(text)
    else:
        print(text)


def answer_shells() -> None:
    """Let the program know the ways in which shells ask."""
    from typer._completion_classes import completion_init

    completion_init()
