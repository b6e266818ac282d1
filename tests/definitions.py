"""All that a file of Python defines, without a look at its expressions: nine tenths of its nodes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_PARTS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement holds others."""


def definitions(path: Path) -> Iterator[Definition]:
    """The module, and each class and function in it, however deep."""
    return _within(ast.parse(path.read_text(encoding="utf-8")))


def _within(node: ast.AST) -> Iterator[Definition]:
    if isinstance(node, Definition):
        yield node
    for part in _PARTS:
        for each in getattr(node, part, ()):
            yield from _within(each)
