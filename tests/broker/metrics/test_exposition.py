"""The text is read by Prometheus' own parsers, the strict one of OpenMetrics among them."""

from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from broker.metrics.exposition import Family, counter, exposition, gauge, histogram, info, wants_open_metrics

NASTY = 'a "b" \\ c\nd {e="f"} , é'


def both(*families: Family) -> list[list[Any]]:
    """What the two parsers make of it: text first."""
    text = exposition(families, open_metrics=False).decode()
    open_metrics = exposition(families, open_metrics=True).decode()
    assert open_metrics.endswith("# EOF\n")
    return [list(read_text(text)), list(read_open(open_metrics))]


def test_a_counter() -> None:
    for (family,) in both(counter("x_bytes", 'How "many"\nof \\ them.').add(7, a="1").add(8, a="2")):
        assert (family.name, family.type, family.documentation) == (
            "x_bytes",
            "counter",
            'How "many"\nof \\ them.',
        )
        assert [(s.name, s.labels, s.value) for s in family.samples] == [
            ("x_bytes_total", {"a": "1"}, 7),
            ("x_bytes_total", {"a": "2"}, 8),
        ]


def test_labels_are_escaped() -> None:
    for (family,) in both(gauge("x", "Text.").add(1, queue=NASTY)):
        assert family.samples[0].labels == {"queue": NASTY}


def test_a_histogram_adds_up() -> None:
    for (family,) in both(histogram("x_seconds", "Text.").observe((0.5, 1), [2, 0, 3], 9.25, queue=NASTY)):
        assert family.type == "histogram"
        found = {(s.name, s.labels.get("le")): s.value for s in family.samples}
        assert found == {
            ("x_seconds_bucket", "0.5"): 2,
            ("x_seconds_bucket", "1.0"): 2,
            ("x_seconds_bucket", "+Inf"): 5,
            ("x_seconds_sum", None): 9.25,
            ("x_seconds_count", None): 5,
        }


def test_a_histogram_with_a_bucket_too_few_is_refused() -> None:
    with pytest.raises(ValueError):
        histogram("x_seconds", "Text.").observe((0.5, 1), [2, 0], 1)


def test_an_info() -> None:
    text, open_metrics = both(info("x", "Text.").add(1, version="1.2"))
    assert [family.type for family in (*text, *open_metrics)] == ["gauge", "info"]
    for (family,) in (text, open_metrics):
        assert (family.samples[0].name, family.samples[0].labels) == ("x_info", {"version": "1.2"})


def test_a_unit_is_told_where_there_is_one() -> None:
    lines = exposition([gauge("x_seconds", "Text.").add(1), gauge("y", "Text.").add(1)], open_metrics=True)
    assert lines.decode().splitlines() == [
        *("# HELP x_seconds Text.", "# TYPE x_seconds gauge", "# UNIT x_seconds seconds", "x_seconds 1"),
        *("# HELP y Text.", "# TYPE y gauge", "y 1", "# EOF"),
    ]


def test_a_family_without_samples_is_left_out() -> None:
    assert exposition([gauge("x", "Text.")], open_metrics=False) == b"\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((True, "1"), (0, "0"), (2**63, "9223372036854775808"), (0.25, "0.25"), (1e-9, "1e-09")),
        *((float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN")),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert list(gauge("x", "T").add(value).lines(open_metrics=False))[-1] == f"x {text}"


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Version=1.0.0", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("application/openmetrics-text;version=9.9.9,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", False),
        (PROMETHEUS, True),
        (";;,,;q=", False),
    ],
)
def test_negotiation(accept: str, wanted: bool) -> None:
    assert wants_open_metrics(accept) is wanted
