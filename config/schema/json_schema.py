"""Generates the JSON Schema from the model; it serves YAML files too.

What excludes each other is added here where JSON Schema can say it; the readers say it with a place.
"""

import json
from typing import Any, Final, assert_never

from config.fields import YAML, Part, Parts, Scalar, Setting, Values, alone, settings
from config.model import Site

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def generate() -> str:
    """Return the text of `sapwood.schema.json`."""
    definitions: dict[str, Any] = {}
    _collect(Site, definitions)
    definitions[Site.__name__]["allOf"] = _combinations()
    schema = {
        "$schema": _DRAFT,
        "title": "A site of a Sapwood tree",
        "$comment": "Generated from the model of a site's file. Do not edit: python -m config.schema",
        "type": "object",
        "properties": {"broker": {"$ref": f"#/$defs/{Site.__name__}"}},
        "required": ["broker"],
        "additionalProperties": False,
        "$defs": definitions,
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _collect(cls: type[Any], definitions: dict[str, Any]) -> None:
    if cls.__name__ in definitions:
        return
    required = [YAML(one.name) for one in settings(cls) if isinstance(one, Scalar) and one.required]
    schema: dict[str, Any] = {
        "description": " ".join((cls.__doc__ or "").split()),
        "type": "object" if required else ["object", "null"],
        "properties": {YAML(one.name): _property(one) for one in settings(cls)},
        "additionalProperties": False,
    }
    schema |= {"required": required} if required else {}
    pairs = _exclusive(cls)
    definitions[cls.__name__] = schema | ({"allOf": pairs} if pairs else {})
    for setting in settings(cls):
        if isinstance(setting, Part | Parts):
            _collect(setting.section, definitions)


def _property(setting: Setting) -> dict[str, Any]:
    described: dict[str, Any] = {"description": setting.meaning}
    match setting:
        case Scalar(kind=kind, default=default):
            given = {} if default is None else {"default": kind.native(default)}
            return described | given | kind.json()
        case Part(section=cls):
            word = alone(cls)
            whole = {"$ref": f"#/$defs/{cls.__name__}"}
            return described | (whole if word is None else {"anyOf": [whole, word.kind.json()]})
        case Values(kind=kind):
            return described | {"type": ["array", "null"], "items": kind.json()}
        case Parts(section=cls, maximum=maximum):
            bound = {} if maximum is None else {"maxItems": maximum}
            return (
                described | {"type": ["array", "null"], "items": {"$ref": f"#/$defs/{cls.__name__}"}} | bound
            )
        case _:
            assert_never(setting)


def _exclusive(cls: type[Any]) -> list[dict[str, Any]]:
    """A secret is named by a variable or a file, not both."""
    names = [setting.name for setting in settings(cls)]
    stems = [name.removesuffix("_env") for name in names if name.endswith("_env")]
    return [{"not": {"required": [YAML(f"{stem}_env"), YAML(f"{stem}_file")]}} for stem in stems]


def _combinations() -> list[dict[str, Any]]:
    """`scheme` or `nodetype`, and no permits at a leaf."""
    scheme, nodetype, connectors = YAML("scheme"), YAML("nodetype"), YAML("tree_connectors")
    every = {connectors: {"items": {"required": [nodetype]}}}
    none = {connectors: {"items": {"properties": {nodetype: False}}}}
    leaf = {nodetype: {"const": "leaf"}}
    is_leaf = {
        "required": [connectors],
        "properties": {
            connectors: {"type": "array", "contains": {"required": [nodetype], "properties": leaf}}
        },
    }
    is_satellite = {"required": [scheme], "properties": {scheme: {"const": "satellite"}}}
    names = ("children_secrets", "permits")
    no_children = {YAML("children"): {"maxItems": 0}, **dict.fromkeys(map(YAML, names), False)}
    return [
        {"if": {"required": [scheme]}, "then": {"properties": none}, "else": {"properties": every}},
        {"if": {"anyOf": [is_leaf, is_satellite]}, "then": {"properties": no_children}},
    ]
