"""Completion of a generated module's command line: a command of the shell that calls it, and knows its words.

    eval "$(python -m chain.stock_v1 --completion stock)"
    stock level --art<TAB>

All words stand in what is printed, for bash, zsh or fish: a key that is pressed starts no program.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_FILE: Final = "FILE"
_BASH: Final = """\
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
_ZSH: Final = """\
{name}() {{ {command} "$@" }}
_sapwood_{name}() {{
  local each skip before=$words[CURRENT-1] known={words}
  for each in "${{(@)words[2,CURRENT-1]}}"; do
    [[ -n $skip ]] && {{ skip=; continue }}
    case $each in
      {valued}) skip=1 ;;
{cases}
    esac
  done
  case $before in
    {files}) _files ;;
    {valued}) ;;
    *) compadd -- "${{(@f)known}}" ;;
  esac
}}
compdef _sapwood_{name} {name}
"""
_FISH: Final = """\
function {name}; {command} $argv; end
function _sapwood_{name}
  set -l skip ''
  set -l known {words}
  set -l said (commandline -opc)
  for each in $said[2..]
    if test -n "$skip"; set skip ''; continue; end
    switch $each
      case {valued}; set skip 1
{cases}
    end
  end
  switch $said[-1]
    case {files}; __fish_complete_path (commandline -ct)
    case {valued}
    case '*'; printf '%s\\n' $known
  end
end
complete -c {name} -f -k -a '(_sapwood_{name})'
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


def _between_bars(several: Iterable[str]) -> str:
    return "|".join(several)


def _lines(several: Iterable[str]) -> str:
    return "$'" + "\\n".join(several) + "'"


_SHELLS: Final[dict[str, tuple[str, str, Callable[[Iterable[str]], str], Callable[[Iterable[str]], str]]]] = {
    "bash": (_BASH, "      {}) words={}; break ;;", _between_bars, _lines),
    "zsh": (_ZSH, "      {}) known={}; break ;;", _between_bars, _lines),
    "fish": (_FISH, "      case {}; set known {}; break", " ".join, " ".join),
}
"""How each shell is told: all of it, one function's words, a choice of words, and several words."""
SHELLS: Final = tuple(_SHELLS)


def script(shell: str, name: str, parser: Parser) -> str:
    """The command and its completion, as the shell reads them."""
    text, case, choice, words = _SHELLS[shell]
    functions: Mapping[str, Parser] = parser.functions
    all_known = [*parser.known, *(each for inner in functions.values() for each in inner.known)]
    return text.format(
        name=name,
        command=shlex.join((sys.executable, "-m", _module())),
        words=words((*functions, *_options(parser.known))),
        cases="\n".join(
            case.format(shlex.quote(each), words(_options(inner.known))) for each, inner in functions.items()
        ),
        valued=choice(_options(each for each in all_known if each.nargs != 0)),
        files=choice(_options(each for each in all_known if each.metavar == _FILE)),
    )


def _module() -> str:
    """The module that was started."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None else "__main__"


def _options(known: Iterable[argparse.Action]) -> list[str]:
    """Without twins, in their order."""
    return list(dict.fromkeys(name for each in known for name in each.option_strings))
