"""Writes the schemas and the reference files anew: `python -m config.schema`, after a change of the model."""

from pathlib import Path

from config.reference import generate
from config.schema import json_schema, xsd

_HOUSE = Path(__file__).parent.parent


def texts() -> dict[str, str]:
    """Every generated file, by its path in the package `config`."""
    return {
        "schema/sapwood.xsd": xsd.generate(),
        "schema/sapwood.schema.json": json_schema.generate(),
        "reference/reference.xml": generate.xml(),
        "reference/reference.yaml": generate.yaml(),
    }


def main() -> None:
    for name, text in texts().items():
        (_HOUSE / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
