"""Completion of a generated module's command line: a command of bash that calls it, and knows its words.

    eval "$(python -m chain.stock_v1 --completion stock)"
    stock level --art<TAB>

All words stand in what is printed: a key that is pressed starts no program.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_FILE: Final = "FILE"
_SCRIPT: Final = """\
{name}() {{ {command} "$@"; }}
_sapwood_{name}() {{
  local IFS=$'\\n' word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local each skip words={words}
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $skip ]] && {{ skip=; continue; }}
    case $each in
      {valued}) skip=1 ;;
{cases}
    esac
  done
  case $before in
    {files}) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$word")) ;;
    {valued}) COMPREPLY=() ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}}
complete -F _sapwood_{name} {name}
"""


class Parser(argparse.ArgumentParser):
    """A parser that knows its options. `functions`: those of its commands, by their names."""

    def __init__(self, **options: Any) -> None:
        self.known: list[argparse.Action] = []
        self.functions: dict[str, Parser] = {}
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        self.known.append(action)
        return action


def named(text: str) -> str:
    """The name of a command. Raises `ArgumentTypeError`."""
    if _NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"expected a name of letters, digits, _ and -, found {text!r}")
    return text


def script(name: str, parser: Parser) -> str:
    """The command and its completion, as bash reads them."""
    functions: Mapping[str, Parser] = parser.functions
    all_known = [*parser.known, *(each for inner in functions.values() for each in inner.known)]
    return _SCRIPT.format(
        name=name,
        command=shlex.join((sys.executable, "-m", _module())),
        words=_words((*functions, *_options(parser.known))),
        cases="\n".join(
            f"      {shlex.quote(each)}) words={_words(_options(inner.known))}; break ;;"
            for each, inner in functions.items()
        ),
        valued="|".join(_options(each for each in all_known if each.nargs != 0)),
        files="|".join(_options(each for each in all_known if each.metavar == _FILE)),
    )


def _module() -> str:
    """The module that was started."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None else "__main__"


def _options(known: Iterable[argparse.Action]) -> list[str]:
    """Without twins, in their order."""
    return list(dict.fromkeys(name for each in known for name in each.option_strings))


def _words(several: Iterable[str]) -> str:
    return "$'" + "\\n".join(several) + "'"
