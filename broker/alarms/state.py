"""One alarm, as a pure state machine: figures and times in, changes out.

Law: an alarm is raised once its figure has been above, or below, for as long as its rule says without a
break, and ends once it has been well for as long, or for as long as the rule says of that. So a figure that
trembles at its threshold neither raises nor ends it.
Law: times are of a clock that only goes on. A figure that is not known at a moment changes nothing.
"""

import math
from enum import StrEnum
from typing import Final

from config.alarms import OF_BYTES, OF_SECONDS, THRESHOLD, AlarmRule
from config.kinds import SIZE_UNITS, Size
from config.values import TIME

_UNITS: Final = ("TiB", "GiB", "MiB", "KiB", "B")


class AlarmChange(StrEnum):
    """A change of an alarm."""

    RAISED = "raised"
    ENDED = "ended"


class AlarmState:
    """Of one rule. `value`: the latest figure, NaN = not known yet."""

    def __init__(self, rule: AlarmRule, *, raised: bool = False) -> None:
        self.rule = rule
        self.raised = raised
        self.value = math.nan
        self._turning: float | None = None

    def __repr__(self) -> str:
        return f"<AlarmState {self.rule.name} {'raised' if self.raised else 'well'} value={self.value:g}>"

    @property
    def pending(self) -> bool:
        """Is it well still, and its figure is not?"""
        return not self.raised and self._turning is not None

    def look(self, value: float, now: float) -> AlarmChange | None:
        """The figure now."""
        if math.isnan(value):
            return None
        self.value = value
        if self._is_bad(value) == self.raised:
            self._turning = None
            return None
        if self._turning is None:
            self._turning = now
        if now - self._turning < self._patience:
            return None
        self._turning = None
        self.raised = not self.raised
        return AlarmChange.RAISED if self.raised else AlarmChange.ENDED

    @property
    def _patience(self) -> float:
        """Seconds for which it must be otherwise before that counts."""
        ends_after, lasting = self.rule.ends_after, self.rule.lasting
        return lasting if not self.raised or ends_after is None else ends_after

    def _is_bad(self, value: float) -> bool:
        if self.rule.above is not None:
            return value > self.rule.above
        return self.rule.below is not None and value < self.rule.below


def condition(rule: AlarmRule) -> str:
    """Its condition in words."""
    side, threshold = ("above", rule.above) if rule.above is not None else ("below", rule.below or 0.0)
    of = f" of queue {rule.queue}" if rule.queue else ""
    lasting = f" for {TIME.text(rule.lasting)}" if rule.lasting else ""
    return f"{rule.metric}{of} {side} {_threshold(rule.metric, threshold)}{lasting}"


def _threshold(metric: str, value: float) -> str:
    """As a site's file may have it, so that two of them never look alike."""
    if metric in OF_BYTES and value == int(value):
        return Size().text(int(value))
    return TIME.text(value) if metric in OF_SECONDS else THRESHOLD.text(value)


def figure(metric: str, value: float) -> str:
    """A figure for people, in its unit: 597.3MiB, 2m10s, 1.49ms."""
    if metric in OF_BYTES:
        unit = next((each for each in _UNITS if value >= SIZE_UNITS[each]), "B")
        return f"{value / SIZE_UNITS[unit]:.4g}{unit}"
    if metric in OF_SECONDS:
        if 0 < value < 1:
            return f"{1000 * value:.4g}ms"
        return TIME.text(round(value, 3 if value < 10 else 0))
    return THRESHOLD.text(value)
