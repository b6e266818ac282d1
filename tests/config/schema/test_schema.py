import json
from pathlib import Path

import jsonschema
import pytest
import xmlschema

import config
from config.schema import json_schema_text, xsd_text
from config.schema.__main__ import texts


@pytest.mark.parametrize("name", sorted(texts()))
def test_a_published_file_is_what_the_model_says_today(name: str) -> None:
    """When this fails: `python -m config.schema`."""
    published = Path(config.__file__).parent / name
    assert published.read_bytes().decode() == texts()[name]


def test_the_schemas_are_schemas() -> None:
    assert xmlschema.XMLSchema(xsd_text()).built
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema_text()))
