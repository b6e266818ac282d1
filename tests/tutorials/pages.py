"""Reads a tutorial as its reader does: commands in order, the lines that they show, and where to stop them.

A block `sh` is run in one folder. Where it is one line that begins as one of `LASTING` does, it goes on in a
terminal of its own. A block without a language holds lines that the command before it prints, each somewhere
in its output. Comments that no reader sees say the rest: `<!-- stop: COMMAND -->`, `<!-- until -->` (the next
command is tried again until it shows that), `<!-- shown by: COMMAND -->` (the next lines come from that
terminal).
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

LASTING: Final = {
    "sapwood node run": "dashboard: http",
    "mosquitto -c": " running",
    "mosquitto_sub -d": "Subscribed",
    "python stock.py": "serves the queue",
    "python serve.py": "Python serves",
    "./_build/default/serve.exe": "OCaml serves",
    "sapwood receive queue:sales": "",
}
"""Commands that do not end by themselves, and what they print once they are ready."""
_PIECE: Final = re.compile(
    r"^```(\w*)\n(.*?)^```$|^<!-- (stop|shown by|until)(?:: (.*?))? -->$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Step:
    """One thing that the reader does, or looks at. `kind`: run, start, stop or look."""

    kind: str
    command: str
    shows: tuple[str, ...] = ()
    again: bool = False


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    until, terminal = False, ""
    for language, block, word, detail in _PIECE.findall(page.read_text("utf-8")):
        if word == "stop":
            found.append(Step("stop", detail))
        elif word == "until":
            until = True
        elif word == "shown by":
            terminal = detail
        elif language == "sh":
            found.append(Step("start" if ready(block) is not None else "run", block.strip(), again=until))
            until = False
        elif not language:
            shows = tuple(block.splitlines())
            if terminal:
                found.append(Step("look", terminal, shows))
            else:
                assert found[-1].kind == "run", f"{page.name}: who shows {shows}?"
                found[-1] = replace(found[-1], shows=shows)
            terminal = ""
    return found


def ready(block: str) -> str | None:
    """The words by which a lasting command says that it is ready; None for one that ends by itself."""
    lines = block.strip().splitlines()
    if len(lines) != 1:
        return None
    return next((words for begin, words in LASTING.items() if lines[0].startswith(begin)), None)
