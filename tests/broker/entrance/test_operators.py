"""Operators: who has a token, what a role may, and what is never shown."""

import pytest

from broker.entrance.operators import HERE, Asker, Operators, hash_of, new_token
from config.operators import ROLES, Operator


def test_a_token_is_of_its_operator_and_no_other_text_is() -> None:
    token = new_token()
    operators = Operators("word", [Operator(name="anna", role="operator", token_hash=hash_of(token))])
    assert operators.holder(token) == Asker("anna", "operator")
    assert operators.holder("word") == Asker("token", "administrator")
    assert not any(map(operators.holder, ("", token[:-1], token + "x", hash_of(token), "\udcff")))


def test_a_token_is_asked_for_where_the_file_names_one_or_an_operator() -> None:
    listed = [Operator(name="anna", token_hash=hash_of("x"))]
    assert Operators("word").ask_all
    assert Operators("", listed).ask_all
    assert not Operators().ask_all


def test_who_is_taken_out_of_the_file_has_no_token_any_more() -> None:
    operators = Operators("", [Operator(name="anna", token_hash=hash_of("x"))])
    operators.become(Operators("", [Operator(name="ben", token_hash=hash_of("y"))]))
    assert operators.holder("x") is None
    assert operators.holder("y") == Asker("ben", "viewer")


def test_a_node_stays_closed_when_its_last_operator_is_taken_out() -> None:
    operators = Operators("", [Operator(name="anna", token_hash=hash_of("x"))])
    operators.become(Operators())
    assert operators.ask_all
    assert operators.is_nobody
    assert operators.holder("x") is None
    opened = Operators()
    opened.become(Operators())
    assert not opened.ask_all
    opened.become(Operators("word"))
    opened.become(Operators())
    assert opened.ask_all


def test_whatever_is_open_is_told_of_each_change_while_it_lasts() -> None:
    operators, told = Operators("word"), []
    with operators.when_changed(lambda: told.append("a")), operators.when_changed(lambda: told.append("b")):
        operators.become(Operators())
    operators.become(Operators("other"))
    assert told == ["a", "b"]


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_what_those_before_it_may(role: str) -> None:
    asker = Asker("anna", role)  # type: ignore[arg-type]
    assert [each for each in ROLES if asker.may(each)] == list(ROLES[: ROLES.index(role) + 1])  # type: ignore[arg-type]
    assert HERE.may(role)  # type: ignore[arg-type]


def test_neither_token_nor_hash_is_shown() -> None:
    assert repr(Operators("word", [Operator(name="anna", token_hash=hash_of("x"))])) == "<Operators 2>"
