"""Families of samples, and the two texts that Prometheus reads: its own format 0.0.4, and OpenMetrics 1.0.

Law: base units; a counter is named without `_total` here and with it in a sample; HELP and TYPE stand once,
before all samples of the family; no two samples have the same labels; every label value is escaped.
Source: https://prometheus.io/docs/instrumenting/exposition_formats, https://prometheus.io/docs/specs/om.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_UNITS: Final = ("seconds", "bytes")
_OPEN_METRICS_MEDIA: Final = "application/openmetrics-text"
_TEXT_MEDIA: Final = ("text/plain", "text/*", "*/*")


class FamilyKind(StrEnum):
    """What a family's numbers are. `INFO`: labels are all it says, the value is 1."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Family:
    """Samples of one name. `name`: with its unit, without `_total` and `_info`. `text`: one sentence."""

    __slots__ = ("_lines", "kind", "name", "text")

    def __init__(self, name: str, kind: FamilyKind, text: str) -> None:
        self.name = name
        self.kind = kind
        self.text = text
        self._lines: list[str] = []

    def __repr__(self) -> str:
        return f"<Family {self.name} {self.kind} samples={len(self._lines)}>"

    def add(self, value: float, **labels: str) -> "Family":
        """One sample; for an INFO the value is 1. Returns itself."""
        suffix = {FamilyKind.COUNTER: "_total", FamilyKind.INFO: "_info"}.get(self.kind, "")
        self._lines.append(f"{self.name}{suffix}{_labelled(labels)} {_number(value)}")
        return self

    def observe(
        self, bounds: Sequence[float], counts: Sequence[int], total: float, **labels: str
    ) -> "Family":
        """One histogram. `bounds`: upper ones, ascending; `counts`: of each bucket and of what lies above."""
        seen = 0
        for bound, count in zip([*map(float, bounds), float("inf")], counts, strict=True):
            seen += count
            edge = "+Inf" if bound == float("inf") else repr(bound)
            self._lines.append(f"{self.name}_bucket{_labelled({**labels, 'le': edge})} {seen}")
        self._lines.append(f"{self.name}_sum{_labelled(labels)} {_number(total)}")
        self._lines.append(f"{self.name}_count{_labelled(labels)} {seen}")
        return self

    def lines(self, *, open_metrics: bool) -> Iterator[str]:
        """The family as text, or nothing where it has no samples."""
        if not self._lines:
            return
        name, kind = self.name, str(self.kind)
        if not open_metrics:
            name += {FamilyKind.COUNTER: "_total", FamilyKind.INFO: "_info"}.get(self.kind, "")
            kind = "gauge" if self.kind is FamilyKind.INFO else kind
        yield f"# HELP {name} {self.text.translate(_ESCAPES if open_metrics else _HELP_ESCAPES)}"
        yield f"# TYPE {name} {kind}"
        unit = self.name.rpartition("_")[2]
        if open_metrics and unit in _UNITS:
            yield f"# UNIT {name} {unit}"
        yield from self._lines


def counter(name: str, text: str) -> Family:
    return Family(name, FamilyKind.COUNTER, text)


def gauge(name: str, text: str) -> Family:
    return Family(name, FamilyKind.GAUGE, text)


def histogram(name: str, text: str) -> Family:
    return Family(name, FamilyKind.HISTOGRAM, text)


def info(name: str, text: str) -> Family:
    return Family(name, FamilyKind.INFO, text)


def exposition(families: Iterable[Family], *, open_metrics: bool) -> bytes:
    """The whole answer."""
    lines = [line for family in families for line in family.lines(open_metrics=open_metrics)]
    if open_metrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(errors="replace")


def wants_open_metrics(accept: str) -> bool:
    """Does an `Accept` header like OpenMetrics at least as much as plain text? Nobody asked: plain text."""
    qualities: dict[str, float] = {}
    for item in accept[:1000].split(","):
        media, *parameters = (part.strip().lower() for part in item.split(";"))
        version = next((part for part in parameters if part.startswith("version=")), "")
        if media == _OPEN_METRICS_MEDIA and version.partition("=")[2].strip('"') not in (
            "",
            "1.0.0",
            "0.0.1",
        ):
            continue
        qualities[media] = max(qualities.get(media, 0.0), _quality(parameters))
    wanted = qualities.get(_OPEN_METRICS_MEDIA, 0.0)
    return wanted > 0 and wanted >= max(qualities.get(media, 0.0) for media in _TEXT_MEDIA)


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(max(float(parameter[2:]), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def _labelled(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    """Whole numbers without a point; the others as short as they can be told apart."""
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if value == value and abs(value) != float("inf") else _SPECIAL[str(value)]


_SPECIAL: Final = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
