import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import pytest

from config.fields import Part, Parts, every_setting
from config.model import Site
from config.records import record


@record
class Shop:
    name: str
    tills: int = 1
    tags: list[str] = field(default_factory=list, hash=False)


@partial(record, kw_only=True)
class Street:
    name: str
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Known:
    name: str
    tills: int = 1
    tags: list[str] = field(default_factory=list, hash=False)


def test_a_record_is_what_a_frozen_dataclass_is() -> None:
    ours, theirs = Shop("york", tags=["a"]), Known("york", tags=["a"])
    assert repr(ours) == repr(theirs).replace("Known", "Shop")
    assert is_dataclass(ours)
    assert [one.name for one in fields(ours)] == [one.name for one in fields(theirs)]
    assert ours == Shop("york", 1, ["a"]) != Shop("york", 2, ["a"])
    assert ours != theirs
    assert hash(ours) == hash(theirs) == hash(Shop("york", tags=["b"]))
    assert replace(ours, tills=3) == Shop("york", 3, ["a"])
    assert Shop.__match_args__ == Known.__match_args__  # type: ignore[attr-defined]
    assert not hasattr(ours, "__dict__")


def test_each_record_has_a_default_of_its_own() -> None:
    assert Shop("york").tags is not Shop("york").tags


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: Shop(), "needs 'name'"),
        (lambda: Shop("york", 1, [], 4), "takes 3 values"),
        (lambda: Shop("york", name="leeds"), "'name' twice"),
        (lambda: Shop("york", doors=2), "has no 'doors'"),
        (lambda: Street("coppergate"), "takes 0 values"),
    ],
)
def test_what_cannot_be_made_is_a_type_error(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        make()


def test_a_record_is_never_changed() -> None:
    shop: Any = Shop("york")
    with pytest.raises(FrozenInstanceError, match="name"):
        shop.name = "leeds"
    with pytest.raises(FrozenInstanceError, match="name"):
        del shop.name
    assert shop.name == "york"


def test_a_field_that_is_not_shown_is_not_in_the_repr() -> None:
    assert repr(Street(name="coppergate", secret="till")) == "Street(name='coppergate')"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_equal(again: Callable[[Shop], Shop]) -> None:
    shop = Shop("york", 2, ["a"])
    assert again(shop) == shop
    assert again(shop) is not shop


def test_no_section_of_the_model_has_code_generated_for_it() -> None:
    sections = {Site} | {one.section for _, one in every_setting(Site) if isinstance(one, Part | Parts)}
    assert all(each.__init__ is Shop.__init__ for each in sections)  # type: ignore[misc]
