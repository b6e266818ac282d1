"""Policies are told and asked in their order, and those alone that override what it is about."""

from broker.core.policy import Policies, Policy
from sapwood.protocol.destinations import queue


class Ear(Policy):
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name = name
        self.heard = heard

    def forgotten(self, topic: str) -> None:
        self.heard.append(f"{self.name} {topic}")


class Owner(Policy):
    def __init__(self, name: str) -> None:
        self.name = name

    def owner_of(self, token: str) -> str:
        return self.name


def test_all_that_want_to_know_are_told_in_their_order() -> None:
    heard: list[str] = []
    policies = Policies()
    policies.tell(Policy.forgotten, "prices")
    policies.add([Ear("first", heard), Owner("till")])
    policies.add([Ear("second", heard)])
    policies.tell(Policy.forgotten, "prices")
    assert heard == ["first prices", "second prices"]


def test_the_first_that_has_something_to_say_answers_else_nobody_does() -> None:
    policies = Policies()
    assert policies.ask(Policy.owner_of, "till/1") == ""
    policies.add([Owner(""), Owner("till"), Owner("shop")])
    assert policies.ask(Policy.owner_of, "till/1") == "till"
    assert policies.ask(Policy.may_go_back_up, queue("sales")) is False


def test_what_is_asked_for_each_message_has_those_that_override_it() -> None:
    class Closed(Policy):
        def must_stay(self, entry: object) -> bool:
            return True

    closed = Closed()
    policies = Policies()
    policies.add([Owner("till"), closed])
    assert policies.must_stay == (closed,)
    assert policies.why_not_take == ()
