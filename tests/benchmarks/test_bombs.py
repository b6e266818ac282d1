"""The benchmark of bombs works with one kind, at the smallest size. Nothing here is timed."""

import json

import pytest

from benchmarks import bombs


@pytest.mark.network
def test_a_sibling_is_measured_without_and_beside_a_bomber() -> None:
    said: list[str] = []
    options = ["--kinds", "zeros", "--seconds", "0.5", "--rate", "20"]
    assert bombs.main(options, say=said.append) == 0
    _, quiet, bombed = map(json.loads, said)
    assert (quiet["kind"], quiet["mib_per_s"], quiet["links_lost"]) == ("none", 0, [])
    assert (bombed["kind"], bombed["mib_per_s"] > 0) == ("zeros", True)
    assert all(0 < row["p50_ms"] <= row["p99_ms"] <= row["worst_ms"] for row in (quiet, bombed))
