"""Refusals of one neighbour, by it or of it: how often, by which rule, and the last example of each.

Law: the texts come from rules and from peers, so they are bounded: what was said longest ago goes first.
"""

from typing import Final, NamedTuple

_MOST: Final = 50
_LONGEST: Final = 300


class RefusalCount(NamedTuple):
    """`rule`: what refused it. `what`: the last that was refused by it, '' if the rule's text says all."""

    rule: str
    what: str
    times: int


_NONE: Final[dict[str, RefusalCount]] = {}


class Refusals:
    """Of one neighbour, in one direction. `total`: since the start."""

    __slots__ = ("_by_rule", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_rule = _NONE  # shared, since hardly a neighbour is refused anything

    def __repr__(self) -> str:
        return f"<Refusals total={self.total} rules={len(self._by_rule)}>"

    def add(self, text: str, count: int = 1) -> bool:
        """Count a refusal, as its text tells it. True: a rule that has not refused anything so far."""
        self.total += count
        rule, _, what = text.partition(", not ")
        rule = rule[:_LONGEST]
        self._by_rule = self._by_rule or {}
        known = self._by_rule.pop(rule, None)
        self._by_rule[rule] = RefusalCount(rule, what[:_LONGEST], count + (known.times if known else 0))
        if len(self._by_rule) > _MOST:
            del self._by_rule[next(iter(self._by_rule))]
        return known is None

    def latest(self) -> list[RefusalCount]:
        """By rule, the latest first."""
        return list(reversed(self._by_rule.values()))
