"""Policies of a virtual host that reach the node's own queues. Pure.

A policy for all queues is for `sapwood.topics`, too, in which topics wait while the node is away. It holds
beside the queue's own arguments: of two bounds or times the smaller one.

Wrinkle: RabbitMQ applies one policy to a queue, that with the highest priority, and one operator policy
beside it. So a policy of the node's own takes the first away, and nothing the second.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from bridges.site_brokers.rabbitmq.bindings import MOST_BYTES, TOPICS

_TO_QUEUES: Final = ("all", "queues", "classic_queues", "quorum_queues")
_LOSE: Final = ("message-ttl", "expires")
_OUR_PATTERN: Final = r"^sapwood\.(topics|reply)"
_OURS: Final = json.dumps({"overflow": "reject-publish"})


class Policy(msgspec.Struct):
    """One as the management API lists it."""

    name: str
    pattern: str
    definition: dict[str, Any] = {}
    priority: int = 0
    apply_to: str = msgspec.field(name="apply-to", default="all")


class Harm(NamedTuple):
    """The harm of a policy to our queue, for people, and the lines that end it."""

    text: str
    lines: tuple[str, ...] = ()


def harm_of(vhost: str, policies: Iterable[Policy], of_operators: Iterable[Policy]) -> Harm | None:
    """The harm of a virtual host's policies to the queue of topics; None: none."""
    usual, operators = _applied(policies), _applied(of_operators)
    if operators is not None and (text := _done_by(operators)):
        return Harm(
            f"operator policy {operators.name!r} {text}; give it a pattern that leaves that queue out"
        )
    if usual is not None and (text := _done_by(usual)):
        line = (
            f"rabbitmqctl set_policy -p {vhost} sapwood '{_OUR_PATTERN}' '{_OURS}'"
            f" --priority {usual.priority + 1} --apply-to queues"
        )
        return Harm(f"policy {usual.name!r} {text}", (line,))
    return None


def _applied(policies: Iterable[Policy]) -> Policy | None:
    there = [each for each in policies if each.apply_to in _TO_QUEUES and _matches(each.pattern)]
    return max(there, key=lambda each: each.priority, default=None)


def _matches(pattern: str) -> bool:
    """Erlang's patterns are Perl's; one that Python does not know is taken to be for others."""
    try:
        return re.search(pattern, TOPICS) is not None
    except re.error:
        return False


def _done_by(policy: Policy) -> str:
    lose = [key for key in _LOSE if key in policy.definition]
    if lose:
        return (
            f"sets {' and '.join(lose)} for queue {TOPICS!r}: what applications publish while the node is"
            " away is lost"
        )
    bytes_ = policy.definition.get("max-length-bytes", MOST_BYTES)
    small = isinstance(bytes_, int) and bytes_ < MOST_BYTES
    bounds = ["max-length"] * ("max-length" in policy.definition) + ["max-length-bytes"] * small
    if bounds:
        return (
            f"sets {' and '.join(bounds)} for queue {TOPICS!r}: beyond that applications are refused what"
            " they publish while the node is away"
        )
    return ""
