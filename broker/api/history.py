"""How a node's figures went over hours and days."""

import math
import time

from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, Answer, Parameter, PlainCommand, operation
from broker.core.errors import BadRequest, SwitchError
from broker.history.sampler import HOURS
from broker.history.series import NAMES, SERIES


class SeriesAnswer(Answer):
    """`unit`: '' = a count, /s, s, bytes. `values`: one for each time of `at`; null = not known then."""

    name: str
    title: str
    unit: str
    values: list[float | None]


class History(Answer):
    """`since_s`, `until_s`, `at`: seconds since 1970. Times in which the node did not run have no point.

    `step_s`: between two points; one tells of the time that began at its `at`.
    """

    node: str
    since_s: float
    until_s: float
    step_s: float
    at: list[float]
    series: list[SeriesAnswer]


@operation(
    "GET",
    "/api/history",
    "How the node's figures went.",
    "node",
    (
        AT,
        Parameter(
            "series", f"Only these, with commas between them: {', '.join(NAMES)}.", argument="[SERIES]"
        ),
        Parameter("hours", "How many hours back.", "number", default=1.0, least=0.01, most=HOURS),
    ),
    remote="history",
    errors={**AWAY, 403: "REFUSED: it takes no samples."},
    commands=(PlainCommand("chart", "Show how a node's figures went over hours."),),
)
def chart(node: RunningNode, series: str, hours: float) -> History:
    """Of all series, or of some."""
    names = [each.strip() for each in series.split(",")] if series else list(NAMES)
    for name in names:
        if name not in NAMES:
            raise BadRequest(f"no series {name[:40]!r}: expected some of {', '.join(NAMES)}")
    if node.sampler is None:
        raise SwitchError("this node takes no samples: its file says `history: {enabled: false}`")
    until = time.time()
    course = node.sampler.course(hours)
    return History(
        node=node.name,
        since_s=round(until - hours * 3600, 3),
        until_s=round(until, 3),
        step_s=course.step,
        at=[round(row.at, 3) for row in course.rows],
        series=[
            SeriesAnswer(
                name=each.name,
                title=each.title,
                unit=each.unit,
                values=[_number(row.values[place]) for row in course.rows],
            )
            for place, each in enumerate(SERIES)
            if each.name in names
        ],
    )


def _number(value: float) -> float | None:
    """Of a single-precision number the digits that it has."""
    return None if math.isnan(value) else float(f"{value:.6g}")
