"""Which handler a request finds, and what of its parameters reaches it."""

import enum
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from sapwood import ServiceError
from sapwood.interfaces import Interface, Method, find
from sapwood.rpc_messages import Request


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Article:
    number: int
    colour: Colour = Colour.RED


def sell(article: Article, day: date, count: int = 1, *, note: str | None = None) -> Any:
    return article, day, count, note


def bound(function: Any, **parameters: Any) -> Any:
    arguments = Method("sell", function).bind(parameters)
    return function(*arguments.args, **arguments.kwargs)


def test_parameters_become_what_the_annotations_say() -> None:
    found = bound(sell, article={"number": 7, "colour": "red"}, day="2026-07-01", note="gift")
    assert found == (Article(7), date(2026, 7, 1), 1, "gift")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"article": {"number": "7"}, "day": "2026-07-01"}, "article: Expected `int`, got `str`"),
        ({"article": {"number": 7, "colour": "blue"}, "day": "2026-07-01"}, "Invalid enum value"),
        ({"article": {"number": 7}, "day": "tomorrow"}, "day: Invalid"),
        ({"article": {"number": 7}}, "missing a required argument: 'day'"),
        ({"article": {"number": 7}, "day": "2026-07-01", "price": 1}, "unexpected keyword argument 'price'"),
    ],
)
def test_what_does_not_fit_names_what_would(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ServiceError, match=text) as caught:
        bound(sell, **parameters)
    assert caught.value.code == "BAD_PARAMETERS"
    assert "sell(article:" in caught.value.message


def test_handlers_without_annotations_take_what_comes() -> None:
    assert bound(lambda *args, **others: (args, others), a=1, self=2) == ((), {"a": 1, "self": 2})

    def odd(thing: "Unknown") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return thing

    assert bound(odd, thing=[1]) == [1]


class Callable:
    async def __call__(self, number: int) -> int:
        return number


def test_an_object_that_can_be_called_is_a_handler() -> None:
    method = Method("call", Callable())
    assert method.is_async
    with pytest.raises(ServiceError):
        method.bind({"number": "x"})
    assert method.bind({"number": 3}).args == (3,)


@pytest.mark.parametrize(
    ("served", "asked", "does"),
    [
        ("", "7", True),
        ("1.4", "", True),
        ("1.4", "1.4", True),
        ("1.4", "1.2", True),
        ("1.10", "1.9", True),
        ("1.4", "1.5", False),
        ("1.4", "1", True),
        ("2.0", "1.4", False),
        ("1.4", "2.0", False),
        ("beta", "beta", True),
        ("beta", "alpha", False),
        ("1.4", "1." + "9" * 5000, False),
        ("1.4", "1.٣", False),
    ],
)
def test_a_later_version_that_only_grew_serves_an_earlier_one(served: str, asked: str, does: bool) -> None:
    assert Interface({"x": print}, "stock", served).serves(asked) is does


def test_a_request_without_an_interface_finds_the_only_one() -> None:
    one = Interface({"level": len}, "stock", "1.0")
    other = Interface({"level": sum}, "stock", "2.0")
    third = Interface({"level": abs}, "water")
    assert find([one], Request("level")).function is len
    assert find([one, other], Request("level", version="2.0")).function is sum
    with pytest.raises(ServiceError, match=r"stock 1\.0; water \[UNKNOWN_INTERFACE\]"):
        find([one, third], Request("level"))
    with pytest.raises(ServiceError, match=r"no method 'x' here: level \[UNKNOWN_METHOD\]"):
        find([one], Request("x"))
    assert repr(one) == "<Interface stock 1.0 level>"


def test_a_service_tells_its_methods_unless_it_has_a_help_of_its_own() -> None:
    class Stock:
        def level(self, article: int) -> int:
            """How many there are.

            More of it.
            """
            return article

        def help(self) -> str:
            return "mine"

    plain = Interface({"level": Stock().level}, "stock", "1.0")
    assert find([plain], Request("help")).function() == [
        {
            "method": "level",
            "signature": "level(article: int) -> int",
            "interface": "stock",
            "version": "1.0",
            "text": "How many there are.",
        }
    ]
    assert find([Interface(Stock())], Request("help")).function() == "mine"
