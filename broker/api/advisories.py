"""The latest that was heard of consumers and links: a ring in memory, for people."""

from typing import Literal

from broker.advisory_log import iso_time
from broker.api.context import RunningNode
from broker.api.operation import LIMIT, Answer, operation


class Advisory(Answer):
    """`event`: 'advisory' (came from `peer`), 'consumer' (came or went here) or 'link'."""

    at: str
    event: Literal["advisory", "consumer", "link"]
    op: str
    kind: str | None
    destination: str | None
    peer: str | None
    direction: str | None
    cause: str | None
    origin: str | None


class Advisories(Answer):
    """Newest first."""

    advisories: list[Advisory]


@operation(
    "GET",
    "/api/advisories",
    "What was heard of consumers and links lately, newest first.",
    "tree",
    (LIMIT,),
)
def latest(node: RunningNode, limit: int) -> Advisories:
    """What was heard of consumers and links lately: all that is kept fits into one page."""
    found = node.recent.latest(limit)
    return Advisories(advisories=[Advisory(**{**each._asdict(), "at": iso_time(each.at)}) for each in found])
