"""Generates the reference files from the model.

A setting that excludes another stands in a comment only; in XML all attributes of an element are described in
a comment before it, because XML has no comments inside a tag.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final, assert_never

from config.fields import XML, YAML, Part, Parts, Scalar, Setting, Spelling, Values, settings
from config.kinds import Kind
from config.model import Site
from config.write import xml_text, yaml_scalar

_WIDTH: Final = 100
_INTRODUCTION: Final = """Reference of a site's file: every setting with its meaning, unit and default.
A name and a connector are enough; leave out what you do not need. Durations are written 10s, 500ms, 2h30m, 7d
or as a number of seconds; sizes 64KiB, 10MB or as a number of bytes. Relative paths begin at the folder of
this file. Where a setting has no default, an example stands here. It describes a branch: a node with
a parent and children."""


def yaml() -> str:
    """Return the text of `reference.yaml`."""
    introduction = _comment(f"{_INTRODUCTION} Generated; the same in XML: reference.xml", "")
    return "".join([introduction, "\nbroker:\n", *_yaml_section(Site, "  ")])


def xml() -> str:
    """Return the text of `reference.xml`."""
    text = _filled(f"{_INTRODUCTION} Generated; the same in YAML: reference.yaml", _WIDTH)
    head = ['<?xml version="1.0" encoding="UTF-8"?>\n', "<!--\n", *(f"  {line}\n" for line in text), "-->\n"]
    return "".join([*head, *_xml_section("broker", Site, Site.__doc__ or "", "")])


def _filled(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


def _spelled(meaning: str, spelling: Spelling) -> str:
    """Settings are named between backticks in a meaning: write them as this format does."""
    return re.sub(r"`([a-z_]+)`", lambda match: f"'{spelling(match[1])}'", meaning)


def _default(setting: Scalar) -> str:
    if setting.required:
        return "required"
    return "no default" if setting.default is None else f"default {setting.kind.text(setting.default)}"


def _described(setting: Scalar, spelling: Spelling) -> str:
    """`meaning (what may be written; default)`"""
    unit = {"duration": "duration, ", "size": "size in bytes, "}.get(setting.kind.unit, "")
    words = getattr(setting.kind, "words", ())
    choice = f"{' | '.join(words)}; " if words else ""
    return f"{_spelled(setting.meaning, spelling)} ({unit}{choice}{_default(setting)})"


def _shown(setting: Scalar) -> Any:
    """The value that stands in the reference file, or None when the setting is only described."""
    return None if setting.aside else setting.default if setting.example is None else setting.example


def _parsed(kind: Kind[Any], example: Any) -> Any:
    return kind.parse(example) if isinstance(example, str) else example


def _comment(text: str, indent: str) -> str:
    return "".join(f"{indent}# {line}\n" for line in _filled(text, _WIDTH - len(indent)))


def _yaml_section(cls: type[Any], indent: str) -> Iterator[str]:
    for setting in settings(cls):
        name = YAML(setting.name)
        if isinstance(setting, Scalar):
            yield _comment(_described(setting, YAML), indent)
            shown = _shown(setting)
            native = "…" if shown is None else yaml_scalar(setting.kind.native(_parsed(setting.kind, shown)))
            yield f"{indent}{'# ' if shown is None else ''}{name}: {native}\n"
        else:
            yield "\n" if indent == "  " else ""
            yield f"{_comment(_spelled(setting.meaning, YAML), indent)}{indent}{name}:\n"
            yield from _yaml_inside(setting, indent + "  ")


def _yaml_inside(setting: Setting, indent: str) -> Iterator[str]:
    match setting:
        case Part(section=cls):
            yield from _yaml_section(cls, indent)
        case Values(kind=kind, example=example):
            yield from (f"{indent}- {yaml_scalar(kind.native(_parsed(kind, one)))}\n" for one in example)
        case Parts(section=cls):
            yield f"{indent}-\n"
            yield from _yaml_section(cls, indent + "  ")
        case Scalar():
            raise AssertionError("a scalar has nothing inside")
        case _:
            assert_never(setting)


def _xml_section(name: str, cls: type[Any], meaning: str, indent: str) -> Iterator[str]:
    scalars = [setting for setting in settings(cls) if isinstance(setting, Scalar)]
    others = [setting for setting in settings(cls) if not isinstance(setting, Scalar)]
    yield from _xml_comment(_spelled(meaning, XML), scalars, indent)
    yield f"{indent}<{name}"
    for setting in scalars:
        shown = _shown(setting)
        if shown is not None:
            text = xml_text(setting.kind.text(_parsed(setting.kind, shown)))
            yield f'\n{indent}    {XML(setting.name)}="{text}"'
    yield ">\n" if others else "/>\n"
    for other in others:
        yield "\n" if not indent else ""
        yield from _xml_inside(other, indent + "  ")
    yield f"{indent}</{name}>\n" if others else ""


def _xml_comment(meaning: str, scalars: list[Scalar], indent: str) -> Iterator[str]:
    yield f"{indent}<!-- {' '.join(meaning.split())}"
    for setting in scalars:
        first, *rest = _filled(f"{XML(setting.name)}: {_described(setting, XML)}", _WIDTH - len(indent))
        yield f"\n{indent}     {first}"
        yield from (f"\n{indent}         {line}" for line in rest)
    yield " -->\n"


def _xml_inside(setting: Setting, indent: str) -> Iterator[str]:
    name = XML(setting.name)
    match setting:
        case Part(section=cls):
            yield from _xml_section(name, cls, setting.meaning, indent)
        case Values(kind=kind, example=example, item=item):
            yield f"{indent}<!-- {_spelled(setting.meaning, XML)} -->\n{indent}<{name}>\n"
            texts = (xml_text(kind.text(_parsed(kind, one))) for one in example)
            yield from (f"{indent}  <{XML(item)}>{text}</{XML(item)}>\n" for text in texts)
            yield f"{indent}</{name}>\n"
        case Parts(section=cls, item=item):
            yield f"{indent}<!-- {_spelled(setting.meaning, XML)} -->\n{indent}<{name}>\n"
            yield from _xml_section(XML(item), cls, cls.__doc__ or "", indent + "  ")
            yield f"{indent}</{name}>\n"
        case Scalar():
            raise AssertionError("a scalar is an attribute")
        case _:
            assert_never(setting)
