"""Requests are read by their description."""

from typing import Any

import pytest

from broker.api.operation import Parameter
from broker.core.errors import BadRequest

LIMIT = Parameter("limit", "How many.", "integer", default=100, least=1, most=1000)


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (LIMIT, None, 100),
        (LIMIT, "1", 1),
        (LIMIT, "1000", 1000),
        (Parameter("x", "", "number"), "0.5", 0.5),
        (Parameter("x", "", "boolean", default=False), None, False),
        (Parameter("x", "", "boolean"), "TRUE", True),
        (Parameter("x", "", "boolean"), "0", False),
        (Parameter("x", ""), "ü/#", "ü/#"),
        (Parameter("x", "", choices=("a", "b")), "b", "b"),
    ],
)
def test_what_is_right_is_read(parameter: Parameter, given: str | None, value: Any) -> None:
    assert parameter.read(given) == value


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        (LIMIT, "0"),
        (LIMIT, "1001"),
        (LIMIT, ""),
        (LIMIT, "1.5"),
        (LIMIT, "9" * 5000),
        (Parameter("x", "", "number", least=0, most=1), "nan"),
        (Parameter("x", "", "boolean"), "maybe"),
        (Parameter("x", "", choices=("a", "b")), "c"),
        (Parameter("x", ""), "x" * 5000),
    ],
)
def test_what_is_wrong_is_refused_by_name(parameter: Parameter, given: str) -> None:
    with pytest.raises(BadRequest, match=parameter.name):
        parameter.read(given)


def test_a_parameter_s_schema_says_the_same() -> None:
    assert LIMIT.schema() == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert Parameter("x", "", choices=("a", "b")).schema() == {"type": "string", "enum": ["a", "b"]}
