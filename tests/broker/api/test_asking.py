"""The trail of what is asked: by whom, with which role, of which values, and without secrets."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.asking import _answer, carry_out
from broker.api.context import RunningNode
from broker.api.operation import Parameter, operation
from broker.core.errors import BadRequest, NotFound
from broker.core.sessions.masking import masked
from broker.entrance.operators import Asker

TOKEN = "a-session-that-is-secret"


@operation(
    "DELETE",
    "/api/things/{thing}",
    "Take a thing away.",
    "things",
    (Parameter("thing", "Its name.", in_path=True, secret=True), Parameter("count", "How many.", "integer")),
    remote="thing",
)
def take(node: RunningNode, thing: str, count: int) -> None:
    if thing != "chair":
        raise NotFound(f"there is no {thing!r}")


class Node:
    """Writes down what its trail is told."""

    name = "hq"

    def __init__(self) -> None:
        self.trail: Any = SimpleNamespace(add=lambda *told: self.told.append(told))
        self.told: list[tuple[Any, ...]] = []


DECLARED = take.operation  # type: ignore[attr-defined]


def answer(node: Any, question: dict[str, Any]) -> None:
    _answer(node, DECLARED, "york", question)


@pytest.mark.parametrize("role", ["operator", "administrator", "viewer"])
def test_the_role_is_that_of_the_operator_at_the_other_node(role: str) -> None:
    node = Node()
    answer(node, {"thing": "chair", "count": 1, "by": "otto", "by_role": role})
    assert node.told == [
        (
            "otto at york",
            role,
            "the tree",
            "DELETE /api/things/{thing}",
            {"thing": "chair", "count": 1},
            "done",
        )
    ]


@pytest.mark.parametrize("said", [{}, {"by_role": "king"}, {"by_role": 7}, {"by_role": ["viewer"]}])
def test_a_role_that_is_not_told_is_none(said: dict[str, Any]) -> None:
    node = Node()
    answer(node, {"thing": "chair", "count": 1, **said})
    ((who, role, *_),) = node.told
    assert (who, role) == ("york", "")


def test_only_values_that_were_taken_are_written_down() -> None:
    node = Node()
    with pytest.raises(BadRequest):
        answer(node, {"thing": "chair", "count": "x" * 50_000, "more": ["y"] * 1000})
    ((*_, said, result),) = node.told
    assert said == {}
    assert result == "count is no integer"
    answer(node, {"thing": "chair", "count": 1, "more": ["y"] * 1000})
    assert node.told[-1][4] == {"thing": "chair", "count": 1}


async def test_a_refused_value_that_may_be_a_secret_is_masked() -> None:
    node: Any = Node()
    anna = Asker("anna", "operator")
    with pytest.raises(NotFound):
        await carry_out(node, DECLARED, {"thing": TOKEN, "count": 1}, anna, "here")
    ((*_, said, result),) = node.told
    assert said["thing"] == masked(TOKEN)
    assert TOKEN not in result
    with pytest.raises(NotFound):
        await carry_out(node, DECLARED, {"thing": masked(TOKEN), "count": 1}, anna, "here")
    assert node.told[-1][4]["thing"] == masked(TOKEN)
