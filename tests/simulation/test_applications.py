"""The texts of simulated messages: alike in size, and in nothing else."""

import pytest
import zstandard

from simulation.applications import LARGEST_SIZE, text_of


@pytest.mark.parametrize(
    ("count", "size"), [(1, LARGEST_SIZE), (2, 100_000), (60, 4000), (256, 1000), (256, 256)]
)
def test_messages_of_one_bundle_say_nothing_alike(count: int, size: int) -> None:
    """Else a bundle of them would be packed to a tenth, and so many bytes would be missing on lines."""
    texts = [text_of(number, size) for number in range(1000, 1000 + count)]
    assert {len(text) for text in texts} == {size}
    whole = b"".join(texts)
    assert len(zstandard.compress(whole, 1)) / len(whole) == pytest.approx(0.5, abs=0.02)
