from broker.histogram import Histogram


def test_bounds_are_inclusive_and_the_last_bucket_takes_the_rest() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([2, 2, 1], 7.5)
    assert repr(histogram) == "<Histogram count=5 total=7.5>"
