"""Writes a site as XML or YAML text: only what differs from the defaults, so a file stays small.

Law: what is written reads back as the equal model. The site must be valid (`config.rules.check`).
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, assert_never

from config.fields import XML, YAML, Part, Parts, Scalar, Setting, Values, alone, settings
from config.model import Site

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|([1-9][0-9]*(ms|s|m|h|d|w))+|[1-9][0-9]*[KMGT]i?B")
_WORDS_WITH_MEANING: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ENTITIES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))


def to_xml(site: Site) -> str:
    """Return the file of `site` in XML, in UTF-8 when encoded."""
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + "".join(_element("broker", site, ""))


def to_yaml(site: Site) -> str:
    """Return the file of `site` in YAML."""
    return "broker:\n" + "".join(_mapping(site, "  "))


WRITERS: Final[dict[str, Callable[[Site], str]]] = {"xml": to_xml, "yaml": to_yaml}


def xml_text(text: str) -> str:
    """Escape `text` for an attribute or an element."""
    for character, entity in _ENTITIES:
        text = text.replace(character, entity)
    return text


def yaml_scalar(native: str | float | bool) -> str:
    """Write a value so that YAML 1.1 and 1.2 both read it as what it is."""
    if isinstance(native, str) and _PLAIN.fullmatch(native) and native.lower() not in _WORDS_WITH_MEANING:
        return native
    return json.dumps(native, ensure_ascii=False)


def _written(section: Any) -> Iterator[tuple[Setting, Any]]:
    """The settings of a section that differ from their defaults."""
    for setting in settings(type(section)):
        given = getattr(section, setting.name)
        default = setting.default if isinstance(setting, Scalar | Part) else ()
        if given != default or (isinstance(setting, Scalar) and setting.required):
            yield setting, given


def _element(name: str, section: Any, indent: str) -> Iterator[str]:
    yield f"{indent}<{name}"
    inside: list[str] = []
    for setting, given in _written(section):
        spelled = XML(setting.name)
        match setting:
            case Scalar(kind=kind):
                yield f' {spelled}="{xml_text(kind.text(given))}"'
            case Part():
                inside += _element(spelled, given, indent + "  ")
            case Values(item=item, kind=kind):
                lines = (
                    f"{indent}    <{XML(item)}>{xml_text(kind.text(one))}</{XML(item)}>\n" for one in given
                )
                inside += _wrapped(spelled, lines, indent + "  ")
            case Parts(item=item):
                lines = (line for one in given for line in _element(XML(item), one, indent + "    "))
                inside += _wrapped(spelled, lines, indent + "  ")
            case _:
                assert_never(setting)
    yield "".join([">\n", *inside, f"{indent}</{name}>\n"]) if inside else "/>\n"


def _wrapped(name: str, lines: Iterator[str], indent: str) -> Iterator[str]:
    yield f"{indent}<{name}>\n"
    yield from lines
    yield f"{indent}</{name}>\n"


def _mapping(section: Any, indent: str) -> Iterator[str]:
    for setting, given in _written(section):
        key = f"{indent}{YAML(setting.name)}:"
        match setting:
            case Scalar(kind=kind):
                yield f"{key} {yaml_scalar(kind.native(given))}\n"
            case Part(section=cls):
                word, inside = alone(cls), list(_written(given))
                if word is not None and [one for one, _ in inside] == [word]:
                    yield f"{key} {yaml_scalar(word.kind.native(inside[0][1]))}\n"
                else:
                    yield f"{key}\n"
                    yield from _mapping(given, indent + "  ")
            case Values(kind=kind):
                yield f"{key}\n"
                yield from (f"{indent}  - {yaml_scalar(kind.native(one))}\n" for one in given)
            case Parts():
                yield f"{key}\n"
                for one in given:
                    yield f"{indent}  - " + "".join(_mapping(one, indent + "    ")).lstrip()
            case _:
                assert_never(setting)
