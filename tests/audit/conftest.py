"""One Spark session for all tests of the audit: starting one costs seconds and hundreds of MiB."""

import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from audit_tables import sites, tree_of

from audit.deployment import Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the session; on a machine that does other things too, for minutes."""
    here = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.timeout(900))


def archive_is_there() -> bool:
    """Whether an audit has left its archive of classes here: a session starts with two thirds of the CPU."""
    import pyspark

    from audit.java import class_archive, java_home

    found = class_archive(java_home(), f"pyspark {pyspark.__version__}", time.time())
    return found.startswith('"-XX:SharedArchiveFile=')


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Its rows come to Python in the zone of this process; the tests reckon in UTC."""
    from audit import session

    os.environ["TZ"] = "UTC"
    if not archive_is_there():
        os.environ["XDG_CACHE_HOME"] = os.devnull  # so that none is written
    time.tzset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the collector
        started = session.start("local[2]", 0, {"spark.sql.shuffle.partitions": "2"})
        yield started
        started.stop()


@pytest.fixture(scope="session")
def demo_tree() -> Tree:
    """The tree of the retail demo."""
    stores = {"north": ("york", "durham", "lancaster"), "south": ("bath", "exeter", "winchester")}
    rows = sites(
        "hq - root",
        *(f"{region} hq branch" for region in stores),
        *(f"{store} {region} leaf" for region, names in stores.items() for store in names),
    )
    return tree_of(rows)
