"""Generates the XML Schema from the model.

Wrinkle: an element's children may stand in any order (`xs:all`), so every wrapper stands once and holds its
list. XSD 1.0 cannot say that one attribute excludes another; the readers can.
"""

from collections.abc import Iterator
from typing import Any, assert_never

from config.fields import XML, Part, Parts, Scalar, Setting, Values, settings
from config.kinds import Kind
from config.model import Site
from config.write import xml_text

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- Generated from the model of a site's file. Do not edit: python -m config.schema -->
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified">
"""


def generate() -> str:
    """Return the text of `sapwood.xsd`."""
    types: dict[type[Any], list[str]] = {}
    _collect(Site, types)
    root = f'  <xs:element name="broker" type="{Site.__name__}"/>\n'
    return "".join([_HEAD, root, *(line for lines in types.values() for line in lines), "</xs:schema>\n"])


def _collect(cls: type[Any], types: dict[type[Any], list[str]]) -> None:
    """Put the type of `cls` and of all sections below it into `types`, each once."""
    if cls in types:
        return
    types[cls] = []
    types[cls] = list(_complex_type(cls))
    for setting in settings(cls):
        if isinstance(setting, Part | Parts):
            _collect(setting.section, types)


def _complex_type(cls: type[Any]) -> Iterator[str]:
    yield f'  <xs:complexType name="{cls.__name__}">\n{_documentation(cls.__doc__ or "", "    ")}'
    elements = [setting for setting in settings(cls) if not isinstance(setting, Scalar)]
    if elements:
        yield "    <xs:all>\n"
        for element in elements:
            yield from _element(element)
            if isinstance(element, Parts) and element.bare:
                yield from _bare(element)
        yield "    </xs:all>\n"
    for setting in settings(cls):
        if isinstance(setting, Scalar):
            yield from _attribute(setting)
    yield "  </xs:complexType>\n"


def _attribute(setting: Scalar) -> Iterator[str]:
    use = ' use="required"' if setting.required else ""
    default = "" if setting.default is None else f' default="{xml_text(setting.kind.text(setting.default))}"'
    yield f'    <xs:attribute name="{XML(setting.name)}"{use}{default}>\n'
    yield _documentation(setting.meaning, "      ")
    yield from _simple_type(setting.kind, "      ")
    yield "    </xs:attribute>\n"


def _element(setting: Setting) -> Iterator[str]:
    name, indent = XML(setting.name), "      "
    match setting:
        case Part(section=cls):
            yield f'{indent}<xs:element name="{name}" type="{cls.__name__}" minOccurs="0">\n'
            yield _documentation(setting.meaning, indent + "  ")
        case Values(item=item, kind=kind):
            inner = [f'<xs:element name="{XML(item)}" minOccurs="0" maxOccurs="unbounded">\n']
            inner += [*_simple_type(kind, "  "), "</xs:element>\n"]
            yield from _wrapper(name, setting.meaning, inner)
        case Parts(item=item, section=cls, maximum=maximum):
            most = "unbounded" if maximum is None else str(maximum)
            kind_name = cls.__name__
            inner = [
                f'<xs:element name="{XML(item)}" type="{kind_name}" minOccurs="0" maxOccurs="{most}"/>\n'
            ]
            yield from _wrapper(name, setting.meaning, inner)
        case Scalar():
            raise AssertionError("a scalar is an attribute")
        case _:
            assert_never(setting)
    yield f"{indent}</xs:element>\n"


def _bare(setting: Parts) -> Iterator[str]:
    """Wrinkle: an element of `xs:all` stands once at most."""
    name, kind = XML(setting.item), setting.section.__name__
    yield f'      <xs:element name="{name}" type="{kind}" minOccurs="0">\n'
    yield _documentation(f"{name} without {XML(setting.name)} around it", "        ")
    yield "      </xs:element>\n"


def _wrapper(name: str, meaning: str, inner: list[str]) -> Iterator[str]:
    yield f'      <xs:element name="{name}" minOccurs="0">\n'
    yield _documentation(meaning, "        ")
    yield "        <xs:complexType>\n          <xs:sequence>\n"
    yield from (f"            {line}" for line in inner)
    yield "          </xs:sequence>\n        </xs:complexType>\n"


def _simple_type(kind: Kind[Any], indent: str) -> Iterator[str]:
    base, facets = kind.xsd()
    yield f'{indent}<xs:simpleType>\n{indent}  <xs:restriction base="{base}">\n'
    yield from (f'{indent}    <xs:{facet} value="{xml_text(given)}"/>\n' for facet, given in facets)
    yield f"{indent}  </xs:restriction>\n{indent}</xs:simpleType>\n"


def _documentation(text: str, indent: str) -> str:
    words = xml_text(" ".join(text.split()))
    return f"{indent}<xs:annotation><xs:documentation>{words}</xs:documentation></xs:annotation>\n"
