"""A session that fits the data and the machine."""

import pytest

from audit import session

GIB = 2**30


@pytest.mark.parametrize(
    ("data", "machine", "wanted"),
    [(0, 8 * GIB, 768), (GIB, 8 * GIB, 1280), (100 * GIB, 8 * GIB, 4096), (0, 512 * 2**20, 768)],
)
def test_memory_follows_the_data_up_to_half_of_the_machine(data: int, machine: int, wanted: int) -> None:
    assert session.driver_memory(data, machine) == wanted


@pytest.mark.parametrize(
    ("data", "cores", "wanted"), [(0, 2, 2), (256 * 2**20 + 1, 2, 2), (4 * GIB, 6, 18), (2**50, 8, 2000)]
)
def test_a_shuffle_has_pieces_of_256_mib_for_all_cores(data: int, cores: int, wanted: int) -> None:
    assert session.shuffle_partitions(data, cores) == wanted


def test_the_session_reckons_in_utc(spark: object) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"  # type: ignore[attr-defined]
