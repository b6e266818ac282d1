"""Which policies harm the node's own queue, by what RabbitMQ says of which policy a queue has."""

from typing import Any

import pytest

from bridges.site_brokers.rabbitmq.policies import Policy, harm_of


def policy(name: str, pattern: str = ".*", priority: int = 0, apply_to: str = "all", **keys: Any) -> Policy:
    definition = {key.replace("_", "-"): value for key, value in keys.items()}
    return Policy(name, pattern, definition, priority, apply_to)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([policy("all", message_ttl=1, expires=2)], "policy 'all' sets message-ttl and expires"),
        ([policy("all", max_length=100)], "policy 'all' sets max-length for"),
        ([policy("all", max_length_bytes=100)], "policy 'all' sets max-length-bytes for"),
        ([policy("all", max_length_bytes=1 << 40)], ""),
        ([policy("all", dead_letter_exchange="dead")], ""),
        ([policy("tills", "^till", message_ttl=1)], ""),
        ([policy("all", apply_to="exchanges", message_ttl=1)], ""),
        ([policy("all", message_ttl=1), policy("ours", "^sapwood", 1, overflow="reject-publish")], ""),
        ([policy("odd", "(?<", message_ttl=1)], ""),
    ],
)
def test_the_policy_that_the_queue_has(given: list[Policy], said: str) -> None:
    harm = harm_of("shop", given, [])
    assert (harm.text if harm else "").startswith(said)
    assert bool(harm) is bool(said)


def test_a_policy_of_ours_has_more_priority() -> None:
    harm = harm_of("shop", [policy("low", max_length=1), policy("high", priority=7, expires=1)], [])
    assert harm is not None
    assert "'high'" in harm.text
    assert "--priority 8 " in harm.lines[0]


def test_an_operators_policy_is_not_taken_away_by_one_of_ours() -> None:
    harm = harm_of("shop", [policy("all", expires=1)], [policy("cap", message_ttl=1)])
    assert harm is not None
    assert harm.text.startswith("operator policy 'cap' sets message-ttl")
    assert harm.lines == ()
