"""The published schemas of a site's file, generated from the model: `python -m config.schema` writes them.

`sapwood.xsd` (XML Schema 1.0) and `sapwood.schema.json` (JSON Schema 2020-12, for YAML too) accept every file
that the readers accept, and refuse what a schema can express. Some combinations only the readers know.

| module | |
|---|---|
| `json_schema` | generates the JSON Schema from the model; it serves YAML files too |
| `xsd` | generates the XML Schema from the model |
"""

from importlib import resources


def xsd_text() -> str:
    """Return the published XML Schema."""
    return resources.files(__name__).joinpath("sapwood.xsd").read_text("utf-8")


def json_schema_text() -> str:
    """Return the published JSON Schema."""
    return resources.files(__name__).joinpath("sapwood.schema.json").read_text("utf-8")
