"""The programs on the pages of interfaces, as a reader copies them."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_FUNCTION: Final = re.compile(r'<section id="([^"]+)" class="function">(.*?)</section>', re.DOTALL)
_PROGRAM: Final = re.compile(
    r"<summary>(Client|Server) in (Python|OCaml)</summary><button[^>]*>Copy</button>"
    r"<pre><code>(.*?)</code></pre>",
    re.DOTALL,
)
_HEAD: Final = re.compile(r"\(\* \(executable \(name (?:client|server)\) \(libraries ([\w. ]+)\)\) \*\)\n")


@dataclass(frozen=True, slots=True)
class Programs:
    """Those of one function. `page`: without the ending; `OCaml` and `Python`: texts by their side."""

    page: str
    function: str
    python: dict[str, str]
    ocaml: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}.{self.function}"

    def shows(self, side: str) -> int:
        """How many lines the program in OCaml shows. Through each channel comes one."""
        return len(re.findall(r'^ +(?:show "|read \w)|print_endline "done"', self.ocaml[side], re.M))


def programs_of(pages: Mapping[str, str]) -> list[Programs]:
    """Of each function, in the order of the pages."""
    return [
        Programs(name.removesuffix(".html"), html.unescape(function), found["Python"], found["OCaml"])
        for name, text in pages.items()
        for function, section in _FUNCTION.findall(text)
        for found in [_by_language(section)]
    ]


def _by_language(section: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"Python": {}, "OCaml": {}}
    for side, language, code in _PROGRAM.findall(section):
        found[language][side.lower()] = html.unescape(code)
    return found


def libraries(program: str) -> list[str]:
    """Those that the first line of a program in OCaml names."""
    head = _HEAD.match(program)
    assert head is not None, program
    return head[1].split()
