"""A text to the model, or all mistakes of its form.

Where a word does not fit, one is put before it, or it is taken for a name; and if that does not help, words
are left out until one fits. So each mistake is found once, and those behind it too, also those of names.
"""

from typing import Any, Final, NamedTuple

from lark import Token, Transformer, UnexpectedToken, v_args

from interfaces import model
from interfaces.errors import MOST, InterfaceError, Problem
from interfaces.model import At
from interfaces.tokens import is_version, parser, problem, read_words, shown

_SAID: Final = {
    "$END": "the end of the file",
    "STRING": 'a text in "…"',
    "NAME": "a name",
    "VERSION": "a version, as 1.0",
    "LBRACE": "{",
    "RBRACE": "}",
    "LESSTHAN": "<",
    "MORETHAN": ">",
    "COLON": ":",
    "COMMA": ",",
    "DOT": ".",
    "EQUAL": "=",
}
_MISSING: Final = {
    "STRING": '"?"',
    "COLON": ":",
    "LBRACE": "{",
    "EQUAL": "=",
    "NAME": "missing",
    "VERSION": "?",
    "MORETHAN": ">",
    "RBRACE": "}",
}
"""Words that are put in. They stand nowhere: their line is 0."""
_LONGEST_END: Final = 100
"""Words that are put at the end of a file at most."""
_CURES: Final = (
    ("STRING", "whatever has a name has a description behind it"),
    ("NAME", "words of the language are no names"),
    ("VERSION", "an interface says its version behind its name"),
    ("IN", "a function has its inputs first, then outputs, then the errors that it raises"),
    ("OUT", "a function has its inputs first, then outputs, then the errors that it raises"),
    ("FUNCTION", "each definition begins with its word"),
    ("IMPORT", "a file begins with its imports; functions and namespaces stand in an interface"),
    ("STRUCT", "functions and namespaces stand in an interface, and imports at the beginning of a file"),
    ("COLON", "a name is followed by its type, as `count: int64`"),
    ("LBRACE", "a block stands in { }"),
    ("RBRACE", "each { needs its }"),
)


class Understood(NamedTuple):
    """`file`: as if each mistake were mended; None = nobody could say. `is_whole`: no words were left out."""

    file: model.File | None
    problems: list[Problem]
    is_whole: bool


def parse(text: str, file: str = "") -> model.File:
    """What a text says. Raises `InterfaceError` with every mistake; `file` is the name in them."""
    made, problems, _ = understand(text, file)
    if problems or made is None:
        raise InterfaceError(problems)
    return made


def understand(text: str, file: str = "") -> Understood:
    """Read a text as far as it is clear. Raises `InterfaceError` where it is too long, or too deep."""
    words, problems = read_words(text, file)
    interactive: Any = parser().parse_interactive("")  # the library has no types for it
    skipping, is_whole = False, True
    for word in words:
        if word.type == "COMMENT":
            continue
        try:
            interactive.feed_token(word)
            skipping = False
        except UnexpectedToken:
            if skipping or len(problems) >= MOST:
                is_whole = False
                continue
            problems.append(problem(file, word, _unexpected(interactive, word)))
            repaired = _repaired(interactive, word)
            interactive, skipping = repaired or interactive, repaired is None
            is_whole = is_whole and not skipping
    if "$END" not in interactive.accepts():
        if is_whole or not problems:
            last = _end(text)
            problems.append(Problem(file, last.line, last.column, _unexpected(interactive, None)))
        is_whole = False
    tree = _ended(interactive)
    return Understood(None if tree is None else _Builder().transform(tree), problems, is_whole)


def _ended(interactive: Any) -> Any:
    """The tree, with all that is missing at the end; None if that is too much."""
    for _ in range(_LONGEST_END):
        able = interactive.accepts()
        if "$END" in able:
            return interactive.feed_eof()
        name = "RBRACE" if "RBRACE" in able else next((name for name in _MISSING if name in able), None)
        if name is None:
            break
        interactive.feed_token(_put(name))
    return None


def _put(name: str) -> Token:
    return Token(name, _MISSING[name], line=0, column=0)


def _repaired(interactive: Any, word: Token) -> Any:
    """The parser behind this word, as if the word had been right; None where no small change helps."""
    able = interactive.accepts()
    changes = [[_put(name)] for name in _MISSING if name in able]
    if "NAME" in able and word.isidentifier():
        return _fed(interactive, [Token.new_borrow_pos("NAME", str(word), word)])
    return next((fed for change in changes if (fed := _fed(interactive, [*change, word]))), None)


def _fed(interactive: Any, words: list[Token]) -> Any:
    tried = interactive.copy(deepcopy_values=False)
    try:
        for word in words:
            tried.feed_token(word)
    except UnexpectedToken:
        return None
    return tried


def _unexpected(interactive: Any, word: Token | None) -> str:
    """A message for a word that does not fit; None = the end of the file."""
    able = interactive.accepts()
    found = shown(word) if word is not None else _SAID["$END"]
    said = sorted(_SAID.get(name, name.lower()) for name in able)
    cures = _CURES if word is not None else (_CURES[-1], *_CURES)
    cure = next((text for name, text in cures if name in able), "")
    wanted = f"{', '.join(said[:-1])} or {said[-1]}" if len(said) > 1 else "".join(said)
    return f"expected {wanted}, found {found}{cure and f': {cure}'}"


def _end(text: str) -> At:
    return At(text.count("\n") + 1, len(text) - text.rfind("\n"))


@v_args(inline=True)
class _Builder(Transformer[Token, model.File]):
    """One method a rule of the grammar. Each is given what the rule's parts have become."""

    def file(self, *parts: Any) -> model.File:
        imports = tuple(part for part in parts if isinstance(part, model.Import))
        return model.File(imports, parts[len(imports) :])

    def imported(self, path: Token) -> model.Import:
        return model.Import(_text(path), _at(path))

    def interface(self, name: Token, version: Token, said: Token, owners: Any, *members: Any) -> Any:
        return model.Interface(str(name), _version(version), _text(said), owners or (), members, _at(name))

    def owners(self, *names: Token) -> tuple[str, ...]:
        return tuple(map(_text, names))

    def namespace(self, name: Token, said: Token, *members: Any) -> model.Namespace:
        return model.Namespace(str(name), _text(said), members, _at(name))

    def struct(self, name: Token, said: Token, *fields: model.Field) -> model.Struct:
        return model.Struct(str(name), _text(said), fields, _at(name))

    def variant(self, name: Token, said: Token, *cases: model.Case) -> model.Variant:
        return model.Variant(str(name), _text(said), cases, _at(name))

    def alias(self, name: Token, type_: model.Type, said: Token) -> model.Alias:
        return model.Alias(str(name), type_, _text(said), _at(name))

    def error(self, name: Token, type_: model.Type | None, said: Token) -> model.Error:
        return model.Error(str(name), type_, _text(said), _at(name))

    def field(self, name: Token, type_: model.Type, said: Token) -> model.Field:
        return model.Field(str(name), type_, _text(said), _at(name))

    def case(self, name: Token, type_: model.Type | None, said: Token) -> model.Case:
        return model.Case(str(name), type_, _text(said), _at(name))

    def function(self, name: Token, said: Token, *parts: Any) -> model.Function:
        *values, raises = parts
        inputs = tuple(part for is_input, part in values if is_input)
        outputs = tuple(part for is_input, part in values if not is_input)
        return model.Function(str(name), _text(said), inputs, outputs, raises or (), _at(name))

    def input(self, name: Token, type_: model.Type, said: Token) -> tuple[bool, model.Field]:
        return True, self.field(name, type_, said)

    def output(self, name: Token, type_: model.Type, said: Token) -> tuple[bool, model.Field]:
        return False, self.field(name, type_, said)

    def raises(self, *paths: model.Path) -> tuple[model.Path, ...]:
        return paths

    def applied(self, name: Token, *arguments: model.Type) -> model.Applied:
        return model.Applied(str(name), arguments, _at(name))

    def path(self, *names: Token) -> model.Path:
        return model.Path(tuple(map(str, names)), _at(names[0]))


def _at(word: Token) -> At:
    return At(word.line or 0, word.column or 0)


def _version(word: Token) -> tuple[int, int]:
    """Below 0 where it is missing, or wrong."""
    if not is_version(word):
        return -1, -1
    major, minor = map(int, word.split("."))
    return major, minor


def _text(word: Token) -> str:
    """Without its quotes and escapes. Cut at each escaped backslash, no other is ambiguous."""
    parts = word[1:-1].split("\\\\")
    return "\\".join(part.replace(r"\"", '"').replace(r"\n", "\n") for part in parts)
