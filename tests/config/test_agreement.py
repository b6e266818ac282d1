"""Model, readers, writers and schemas say the same: for random valid sites, and for broken files."""

import contextlib
import copy
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jsonschema
import pytest
import xmlschema
import yaml as pyyaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config import fields, xml, yaml
from config.alarms import Threshold
from config.errors import ConfigurationError
from config.fields import XML, YAML, Part, Parts, Scalar, Values, every_setting
from config.kinds import Boolean, Choice, Duration, Fault, FilePath, Kind, Share, Size, Text, Whole
from config.model import Site, TreeConnector
from config.reference import reference_xml, reference_yaml
from config.rules import check, contradictions
from config.schema import json_schema_text, xsd_text
from config.values import EXCHANGE, PREFIX, USER
from config.write import to_xml, to_yaml

PRINTABLE = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
ADDRESSES = ("10.0.42.2", "127.0.0.1:53", "hq.example:53", "fd00::42", "[fd00::42]:53")
"""A random text of these patterns hardly ever is one."""
JSON = jsonschema.Draft202012Validator(json.loads(json_schema_text()))


@cache
def xsd() -> xmlschema.XMLSchema:
    """Made when it is first asked for: each test process loads this file, and one runs it."""
    return xmlschema.XMLSchema(xsd_text())


def allowed(kind: Kind[Any], value: Any) -> bool:
    try:
        kind.parse(value)
    except Fault:
        return False
    return True


@cache
def values_of(kind: Kind[Any]) -> st.SearchStrategy[Any]:
    match kind:
        case Boolean():
            return st.booleans()
        case Choice(words=words):
            return st.sampled_from(words)
        case Whole(minimum=low, maximum=high) | Size(minimum=low, maximum=high):
            return st.integers(low, high) | st.integers(low, min(high, low + 5000))
        case Duration(minimum=low, maximum=high):
            most = round(min(high * 1000, 10**10))
            return st.integers(round(low * 1000), most).map(lambda milliseconds: milliseconds / 1000)
        case Threshold():
            return st.integers(0, 10**15).map(lambda thousandths: thousandths / 1000)
        case Share():
            return st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
        case Text(pattern=pattern):
            texts = st.from_regex(pattern, fullmatch=True, alphabet=PRINTABLE)
            addresses = [each for each in ADDRESSES if re.fullmatch(pattern, each)]
            return (st.sampled_from(addresses) | texts if addresses else texts).filter(partial(allowed, kind))
        case FilePath():
            return st.text(PRINTABLE, min_size=1, max_size=30).filter(partial(allowed, kind)).map(kind.parse)
    raise AssertionError(kind)


@st.composite
def sections(draw: st.DrawFn, cls: type[Any]) -> Any:
    """A section in which each setting has its default or something else that is right by itself."""
    given: dict[str, Any] = {}
    for setting in fields.settings(cls):
        required = isinstance(setting, Scalar) and setting.required
        if not required and draw(st.integers(0, 2)):
            continue
        match setting:
            case Scalar(kind=kind):
                given[setting.name] = draw(values_of(kind))
            case Part(section=inner):
                given[setting.name] = draw(sections(inner))
            case Values(kind=kind):
                given[setting.name] = tuple(draw(st.lists(values_of(kind), max_size=2)))
            case Parts(section=inner, maximum=maximum):
                given[setting.name] = tuple(draw(st.lists(sections(inner), max_size=maximum or 2)))
    return cls(**given)


def without(section: Any, path: tuple[str | int, ...]) -> Any:
    """The section with the setting at `path` as it is by default, or its list's item gone."""
    name, *rest = path
    setting = next(one for one in fields.settings(type(section)) if one.name == name)
    held = getattr(section, str(name))
    if isinstance(setting, Parts | Values) and rest:
        position, *inside = rest
        inner = (
            next((one for one in fields.settings(setting.section) if [one.name] == inside), None)
            if inside
            else None
        )
        gone = not inside or (isinstance(inner, Scalar) and inner.required)
        changed = () if gone else (without(held[position], tuple(inside)),)
        return replace(section, **{name: (*held[:position], *changed, *held[position + 1 :])})
    if isinstance(setting, Part) and rest:
        return replace(section, **{name: without(held, tuple(rest))})
    return replace(section, **{name: setting.default if isinstance(setting, Scalar | Part) else ()})


@st.composite
def valid_sites(draw: st.DrawFn) -> Site:
    """A random site, out of which every contradiction was taken."""
    site: Site = draw(sections(Site))
    nodetype = None if site.scheme else draw(st.sampled_from(("leaf", "branch")))
    connectors = tuple(replace(one, nodetype=nodetype) for one in site.tree_connectors)
    site = replace(site, tree_connectors=connectors)
    for _ in range(50):
        found = contradictions(site, YAML)
        if not found:
            return site
        for path in (found[0].path, *(found[0].related if without(site, found[0].path) == site else ())):
            site = without(site, path)
    raise AssertionError(found)


@given(valid_sites())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_valid_site_is_written_validated_and_read_back_in_both_formats(site: Site) -> None:
    in_xml, in_yaml = to_xml(site), to_yaml(site)
    xsd().validate(in_xml)
    JSON.validate(pyyaml.safe_load(in_yaml))
    assert xml.read(in_xml) == site
    assert yaml.read(in_yaml) == site
    assert check(site) is site


SETTINGS = [path for path, _ in every_setting(Site)]
SCALARS = [(path, one) for path, one in every_setting(Site) if isinstance(one, Scalar)]
SECTIONS = [(), *(path for path, one in every_setting(Site) if isinstance(one, Part | Parts))]


def wrong_texts(kind: Kind[Any]) -> list[str]:
    return ["", *([] if isinstance(kind, Text | FilePath) else ["-1", "x y", "1 hour", "TRUE "])]


@cache
def _reference() -> tuple[Any, str]:
    return pyyaml.safe_load(reference_yaml()), reference_xml()


def loaded() -> tuple[Any, ElementTree.Element]:
    """The reference files, as they are loaded: each time documents that may be broken."""
    document, text = _reference()
    return copy.deepcopy(document), ElementTree.fromstring(text)


@cache
def _around(path: tuple[str, ...]) -> tuple[str, str]:
    """The reference files without all beside the way to a section, if they are right so; else all of them.

    Most of what a reader does would be spent on sections that have nothing to do with the one to be broken.
    """
    document, root = loaded()
    for depth, name in enumerate(path):
        section, element = yaml_section(document, path[:depth]), xml_section(root, path[:depth])
        for key in [key for key, held in section.items() if isinstance(held, dict | list)]:
            if key != YAML(name):
                del section[key]
        for child in list(element):
            if child.tag != XML(name):
                element.remove(child)
    small = json.dumps(document), ElementTree.tostring(root, "unicode")
    try:
        same = yaml.read(small[0]) == xml.read(small[1])
    except ConfigurationError:
        same = False
    whole, text = _reference()
    return (
        small if same and JSON.is_valid(document) and xsd().is_valid(small[1]) else (json.dumps(whole), text)
    )


def around(path: tuple[str, ...]) -> tuple[Any, ElementTree.Element]:
    """Documents that are right, with the section at `path`: each time ones that may be broken."""
    in_yaml, in_xml = _around(path)
    return json.loads(in_yaml), ElementTree.fromstring(in_xml)


def yaml_section(document: Any, path: tuple[str, ...]) -> Any:
    """The mapping at `path` in a loaded reference file; of a list its first item."""
    here = document["broker"]
    for name in path:
        here = here[YAML(name)]
        here = here[0] if isinstance(here, list) else here
    return here


def xml_section(root: ElementTree.Element, path: tuple[str, ...]) -> ElementTree.Element:
    here = root
    for position, name in enumerate(path):
        found = here.find(XML(name))
        assert found is not None
        setting = dict(every_setting(Site))[path[: position + 1]]
        here = found[0] if isinstance(setting, Parts) else found
    return here


def refused_as_yaml(document: Any) -> str:
    """Both the schema and the reader refuse it; return what the reader says."""
    assert not JSON.is_valid(document)
    with pytest.raises(ConfigurationError) as caught:
        yaml.read(json.dumps(document))
    return str(caught.value)


def refused_as_xml(root: ElementTree.Element) -> str:
    text = ElementTree.tostring(root, "unicode")
    assert not xsd().is_valid(text)
    with pytest.raises(ConfigurationError) as caught:
        xml.read(text)
    return str(caught.value)


def test_the_broken_files_below_are_right_before_they_are_broken() -> None:
    document, root = loaded()
    JSON.validate(document)
    assert yaml.read(json.dumps(document)) == xml.read(ElementTree.tostring(root, "unicode"))


@pytest.mark.parametrize(
    ("path", "setting"), SCALARS, ids=lambda value: ".".join(value) if type(value) is tuple else ""
)
def test_a_wrong_value_is_refused_by_reader_and_schema(path: tuple[str, ...], setting: Scalar) -> None:
    for text in wrong_texts(setting.kind):
        document, root = around(path[:-1])
        for value in (text, [text], {"x": text}):
            yaml_section(document, path[:-1])[YAML(setting.name)] = value
            assert YAML(setting.name) in refused_as_yaml(document)
        xml_section(root, path[:-1]).set(XML(setting.name), text)
        assert XML(setting.name) in refused_as_xml(root)


@pytest.mark.parametrize("path", SECTIONS, ids=".".join)
def test_an_unknown_key_is_refused_by_reader_and_schema(path: tuple[str, ...]) -> None:
    document, root = around(path)
    yaml_section(document, path)["nonsense"] = 1
    assert "'nonsense' is not a setting here" in refused_as_yaml(document)
    xml_section(root, path).set("nonsense", "1")
    assert "'nonsense' is not a setting here" in refused_as_xml(root)
    root = around(path)[1]
    ElementTree.SubElement(xml_section(root, path), "nonsense")
    assert "'nonsense' is not a setting here" in refused_as_xml(root)


@pytest.mark.parametrize(("path", "setting"), [one for one in SCALARS if one[1].required], ids=str)
def test_a_missing_required_value_is_refused_by_reader_and_schema(
    path: tuple[str, ...], setting: Scalar
) -> None:
    document, root = around(path[:-1])
    del yaml_section(document, path[:-1])[YAML(setting.name)]
    assert "is missing" in refused_as_yaml(document)
    del xml_section(root, path[:-1]).attrib[XML(setting.name)]
    assert "is missing" in refused_as_xml(root)


@pytest.mark.parametrize(
    "path", [path for path, one in every_setting(Site) if not isinstance(one, Scalar)], ids=".".join
)
def test_a_section_or_list_is_no_value(path: tuple[str, ...]) -> None:
    document, root = around(path[:-1])
    yaml_section(document, path[:-1])[YAML(path[-1])] = "text"
    expected = "found 'text'" if path == ("permits",) else "found the text 'text'"  # the one that has a word
    assert expected in refused_as_yaml(document)
    outside = xml_section(root, path[:-1])
    outside.set(XML(path[-1]), "text")
    assert "is an element, not an attribute" in refused_as_xml(root)


def second_connector(document: Any, root: ElementTree.Element) -> None:
    connectors, element = document["broker"]["tree_connectors"], root.find("treeConnectors")
    assert element is not None
    connectors.append(copy.deepcopy(connectors[0]))
    element.append(copy.deepcopy(element[0]))


def test_a_second_connector_is_refused_by_reader_and_schema() -> None:
    document, root = loaded()
    second_connector(document, root)
    assert "a node has one parent" in refused_as_yaml(document)
    assert "a node has one parent" in refused_as_xml(root)


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "core"},
        {"scheme": "satellite"},
        {"tree_connectors": [{"uri": "ws://hq"}]},
        {"tree_connectors": [{"nodetype": "leaf", "uri": "ws://hq"}], "children_secrets": None},
        {"http": {"token_env": "A", "token_file": "b"}},
        {"children": [{"name": "a", "secret_env": "A", "secret_file": "b"}]},
        {"site_broker": {"uri": "mqtt://b", "secret_env": "A", "secret_file": "b"}},
    ],
    ids=str,
)
def test_what_excludes_each_other_is_refused_by_reader_and_json_schema(change: dict[str, Any]) -> None:
    document, _ = loaded()
    document["broker"] |= change
    document["broker"] = {key: value for key, value in document["broker"].items() if value is not None}
    refused_as_yaml(document)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_with_our_own_error(data: bytes) -> None:
    for reader in (xml.read, yaml.read):
        with pytest.raises(ConfigurationError):
            reader(data)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused_with_our_own_error(data: st.DataObject) -> None:
    for reader, text in ((xml.read, SMALL_XML), (yaml.read, SMALL_YAML)):
        raw = bytearray(text.encode())
        for _ in range(data.draw(st.integers(1, 4))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(ConfigurationError):
            assert isinstance(reader(bytes(raw)), Site)


_SMALL = Site(
    name="store-1", tree_connectors=(TreeConnector(nodetype="leaf", uri="ws://hq", uris=("ws://b",)),)
)
SMALL_XML, SMALL_YAML = to_xml(_SMALL), to_yaml(_SMALL)


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "  "])
def test_where_no_space_may_stand_none_may_that_looks_like_one(space: str) -> None:
    """A reader of XML folds them, so that the name would be another one there."""
    for kind in (USER, PREFIX, EXCHANGE):
        assert allowed(kind, "ab")
        assert not allowed(kind, f"a{space}b")
    assert not allowed(PREFIX, "a b")


def test_names_at_a_broker_may_have_a_space_inside() -> None:
    """As EasyNetQ writes its exchanges: the type, and the assembly that has it."""
    for kind in (USER, EXCHANGE):
        assert allowed(kind, "Shop.Messages.OrderPlaced, Shop.Messages")
        assert allowed(kind, "a" * 255)
        assert not allowed(kind, "a" * 256)
        assert not allowed(kind, " a")
        assert not allowed(kind, "a ")
