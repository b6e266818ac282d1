"""Alarms on the node's figures: which of them are raised, and whether the receiver hears of it."""

import math
from typing import Literal

from broker.advisory_log import iso_time
from broker.alarms.state import AlarmState, condition, figure
from broker.alarms.watch import AlarmWatch
from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, Answer, PlainCommand, operation
from broker.core.errors import SwitchError
from config.alarms import BUILTIN


class AlarmAnswer(Answer):
    """`pending`: its figure is over the threshold, and not for long enough yet. `value` null: not known yet.

    `since`: null unless it is raised. `condition`, `now`: what raises it, and `value`, in words.
    """

    name: str
    state: Literal["raised", "pending", "well"]
    severity: str
    condition: str
    metric: str
    queue: str | None
    value: float | None
    now: str | None
    since: str | None
    builtin: bool


class WebhookAnswer(Answer):
    """`host`: of the receiver. `waiting`: events that it has not taken yet; `dropped`: those for which there
    was no room any more; `refused`: those that it would never take. `error`: of the latest attempt.
    """

    host: str
    waiting: int
    sent: int
    refused: int
    dropped: int
    error: str


class AlarmsAnswer(Answer):
    """Those that are raised first, the worst of them at the top. `webhook` null: nobody is told."""

    node: str
    alarms: list[AlarmAnswer]
    webhook: WebhookAnswer | None


class TestAnswer(Answer):
    """`id`: of the event that the receiver is told."""

    node: str
    id: str


@operation(
    "GET",
    "/api/alarms",
    "The alarms of a node, and which of them are raised.",
    "node",
    (AT,),
    remote="alarms",
    errors=AWAY,
    commands=(PlainCommand("alarms", "Show a node's alarms, those that are raised first."),),
)
def alarms(node: RunningNode) -> AlarmsAnswer:
    watch = node.alarms
    return AlarmsAnswer(
        node=node.name,
        alarms=[] if watch is None else listed(watch),
        webhook=None if watch is None or watch.webhook is None else WebhookAnswer(**watch.webhook.status()),
    )


def listed(watch: AlarmWatch) -> list[AlarmAnswer]:
    """All, the raised ones first."""
    others = [state for state in watch.states if not state.raised]
    others.sort(key=lambda state: (not state.pending, state.rule.name))
    return [_alarm(watch, state) for state in (*watch.raised, *others)]


def _alarm(watch: AlarmWatch, state: AlarmState) -> AlarmAnswer:
    rule, since = state.rule, watch.since(state.rule.name)
    value = None if math.isnan(state.value) else round(state.value, 6)
    return AlarmAnswer(
        name=rule.name,
        state="raised" if state.raised else "pending" if state.pending else "well",
        severity=rule.severity,
        condition=condition(rule),
        metric=rule.metric,
        queue=rule.queue,
        value=value,
        now=None if value is None else figure(rule.metric, value),
        since=None if since is None else iso_time(since),
        builtin=rule in BUILTIN,
    )


@operation(
    "POST",
    "/api/alarms/test",
    "Tell the webhook that this is a test.",
    "node",
    errors={409: "REFUSED: the node's file names no webhook."},
    commands=(PlainCommand("alarm test", "Tell the webhook that this is a test."),),
)
def test(node: RunningNode) -> TestAnswer:
    """It is queued behind what waits already."""
    if node.alarms is None or node.alarms.webhook is None:
        raise SwitchError("the node's file names no webhook: write `alarms: {webhook: {uri: …}}`")
    return TestAnswer(node=node.name, id=node.alarms.test())


def raised(watch: AlarmWatch | None) -> list[AlarmAnswer]:
    """Those that are raised, the worst first."""
    return [] if watch is None else [_alarm(watch, state) for state in watch.raised]
