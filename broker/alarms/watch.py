"""All alarms of a node: told each sample of its figures; shown, kept on disk while raised, told on.

Law: a restart forgets no alarm. Those that were raised, and what the receiver has not taken yet, are in a
small file, which is written when either changes. An alarm whose rule has changed begins anew; one that was
raised by the rule before ends, and that is told, after a restart as after a reload.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from broker.advisory_log import iso_time
from broker.alarms.state import AlarmChange, AlarmState, condition, figure
from broker.alarms.webhook import AlarmWebhook, Event, Receiver
from broker.core.node import NodeCore
from config.alarms import SEVERITIES, AlarmRule, Severity
from config.whole_files import put

_log = logging.getLogger("sapwood.alarms")
FILE: Final = "alarms.json"
_FORMAT: Final = 1
_MOST_BYTES: Final = 2**23
_RULE: Final = ("name", "metric", "severity", "queue", "above", "below", "lasting")


class Raised(msgspec.Struct, frozen=True):
    """An alarm on disk. `rule`: what raised it, in words. `since`: seconds since 1970. `metric`: '' = of an
    older version.
    """

    name: str
    rule: str
    since: float
    metric: str = ""
    severity: Severity = "warning"
    queue: str | None = None
    above: float | None = None
    below: float | None = None
    lasting: float = 0.0

    @property
    def condition(self) -> str:
        """As this version has it in words."""
        return condition(self.state().rule) if self.metric else self.rule

    def state(self) -> AlarmState:
        of: Any = {each: getattr(self, each) for each in _RULE}
        return AlarmState(AlarmRule(**of), raised=True)


class _Kept(msgspec.Struct):
    format: int = _FORMAT
    raised: list[Raised] = []
    waiting: list[dict[str, Any]] = []


class AlarmWatch:
    """Of one node. `least`: alarms that are less bad are not told on."""

    def __init__(
        self,
        core: NodeCore,
        rules: Iterable[AlarmRule],
        folder: Path,
        receiver: Receiver | None,
        least: Severity,
    ) -> None:
        self._core = core
        self._path = folder / FILE
        self._least = SEVERITIES.index(least)
        self._saving: asyncio.Task[None] | None = None
        self._unsaved = False
        kept = _read(self._path)
        before = {(each.name, each.condition): each for each in kept.raised}
        self.states: list[AlarmState] = []
        for rule in rules:
            was = before.pop((rule.name, condition(rule)), None)
            self.states.append(AlarmState(rule, raised=was is not None))
        self._gone = [each.state() for each in before.values() if each.metric]
        known = {state.rule.name for state in (*self.raised, *self._gone)}
        self._since = {each.name: each.since for each in kept.raised if each.name in known}
        self._webhook = AlarmWebhook(receiver, kept.waiting if receiver else (), changed=self._save)

    def __repr__(self) -> str:
        return f"<AlarmWatch rules={len(self.states)} raised={len(self._since)}>"

    async def run(self) -> None:
        """Tell the receiver, until cancelled; first of alarms whose rules went while the node was away."""
        gone, self._gone = self._gone, []
        self._end(gone)
        await self._webhook.run()

    @property
    def webhook(self) -> AlarmWebhook | None:
        """None: the file names no receiver."""
        return self._webhook if self._webhook.is_named else None

    def configure(self, rules: Iterable[AlarmRule], receiver: Receiver | None, least: Severity) -> None:
        """The site's file was read again. An alarm whose condition is as it was goes on; another one begins
        anew, and if it was raised, it ends, and the receiver that is named now is told so."""
        self._webhook.configure(receiver)
        self._least = SEVERITIES.index(least)
        before = {(state.rule.name, condition(state.rule)): state for state in self.states}
        self.states = []
        for rule in rules:
            state = before.pop((rule.name, condition(rule)), None) or AlarmState(rule)
            state.rule = rule
            self.states.append(state)
        self._end(state for state in before.values() if state.raised)
        self._save()

    def _end(self, states: Iterable[AlarmState]) -> None:
        for state in states:
            state.raised = False
            self._changed(state, AlarmChange.ENDED)

    def since(self, name: str) -> float | None:
        """Since when it is raised, seconds since 1970; None: it is not."""
        return self._since.get(name)

    @property
    def raised(self) -> list[AlarmState]:
        """Those that are raised, the worst first."""
        found = [state for state in self.states if state.raised]
        return sorted(found, key=lambda state: (-SEVERITIES.index(state.rule.severity), state.rule.name))

    def warnings(self) -> list[str]:
        """For who looks at the node."""
        webhook = self.webhook
        if webhook is None or not webhook.error:
            return []
        told = webhook.status()
        return [f"the webhook at {told['host']} does not take alarms: {told['error']}"]

    def look(self, values: Mapping[str, float]) -> None:
        """The figures of a new sample."""
        now = time.monotonic()
        for state in self.states:
            change = state.look(self._value(state.rule, values), now)
            if change is not None:
                self._changed(state, change)

    def _value(self, rule: AlarmRule, values: Mapping[str, float]) -> float:
        if rule.queue is None:
            return values.get(rule.metric, math.nan)
        found = self._core.custody.queues.get(f"queue:{rule.queue}")
        if found is None:
            return 0.0
        if rule.metric == "waiting":
            return float(found.messages)
        since = found.waiting.since
        return 0.0 if since is None else max(self._core.clock.now - since, 0.0)

    def _changed(self, state: AlarmState, change: AlarmChange) -> None:
        rule, now = state.rule, time.time()
        if change is AlarmChange.RAISED:
            self._since[rule.name] = now
            since = now
            level = logging.WARNING
        else:
            since = self._since.pop(rule.name, now)
            level = logging.INFO
        glyph = "!" if change is AlarmChange.RAISED else "="
        text = "%s alarm %s %s (%s): %s, now %s"
        value = figure(rule.metric, state.value)
        _log.log(level, text, glyph, rule.name, change, rule.severity, condition(rule), value)
        if SEVERITIES.index(rule.severity) >= self._least:
            self._webhook.tell(self._event(state, str(change), now, since))
        self._save()

    def _event(self, state: AlarmState, change: str, now: float, since: float) -> Event:
        rule, identity = state.rule, self._core.identity
        now_in_words = figure(rule.metric, state.value)
        return {
            "format": _FORMAT,
            "id": str(uuid4()),
            "tree": identity.tree,
            "node": identity.name,
            "alarm": rule.name,
            "state": change,
            "severity": rule.severity,
            "metric": rule.metric,
            "queue": rule.queue,
            "condition": condition(rule),
            "value": None if math.isnan(state.value) else round(state.value, 6),
            "at": iso_time(now),
            "since": iso_time(since),
            "text": f"{identity.name}: {rule.name} {change}: {condition(rule)}, now {now_in_words}",
        }

    def test(self) -> str:
        """Tell the receiver that this is a test; returns the event's id. Caller's duty: there is one.

        One waits at a time: many would push out the alarms that wait.
        """
        assert self._webhook.is_named
        if waits := next((each for each in self._webhook.waiting if each.get("state") == "test"), None):
            return str(waits["id"])
        now = time.time()
        event = self._event(AlarmState(AlarmRule(name="test", metric="waiting", above=0.0)), "test", now, now)
        event |= {"text": f"{event['node']}: this is a test of the webhook", "severity": "info"}
        self._webhook.tell(event)
        return str(event["id"])

    # --- on disk

    def _save(self) -> None:
        """Soon, and beside the loop."""
        self._unsaved = True
        if self._saving is None:
            self._saving = asyncio.ensure_future(self._save_all())

    async def _save_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._unsaved:
                self._unsaved = False
                await loop.run_in_executor(None, put, self._path, msgspec.json.encode(self._kept()))
        except OSError as error:
            _log.warning("! alarms are not kept over a restart: %s", error)
        finally:
            self._saving = None

    def _kept(self) -> _Kept:
        raised = [self._on_disk(state.rule) for state in self.states if state.raised]
        return _Kept(raised=raised, waiting=self._webhook.waiting)

    def _on_disk(self, rule: AlarmRule) -> Raised:
        of: Any = {each: getattr(rule, each) for each in _RULE}
        return Raised(rule=condition(rule), since=self._since.get(rule.name, 0.0), **of)

    async def close(self) -> None:
        """Write what was not written yet."""
        while self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)


def _read(path: Path) -> _Kept:
    """The file; nothing where there is none, or none of ours."""
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(_MOST_BYTES), type=_Kept)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return _Kept()
    sound = found.format == _FORMAT and all(isinstance(each.get("id"), str) for each in found.waiting)
    return found if sound else _Kept()
