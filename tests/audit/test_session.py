"""A session that fits the data and the machine."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyspark
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


def test_a_cluster_that_gives_us_nothing_is_said_to(spark: Any) -> None:
    """Spark waits for one for ever: it warns of that once in 15 s, and raises nothing."""
    logger = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getLogger
    assert str(logger("org.apache.spark.scheduler.TaskSchedulerImpl").getLevel()) == "WARN"
    assert str(logger("org.apache.spark.scheduler.anything").getLevel()) == "ERROR"


def test_java_is_given_no_archive_that_another_environment_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java leaves it unread without a word, and each audit would start as the first one does."""
    home, jars = tmp_path / "jdk", tmp_path / "here" / "jars"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.15"')
    jars.mkdir(parents=True)
    (jars / "scala-library-2.13.jar").write_bytes(b"")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(home))

    def archive_of(environment: str) -> str:
        monkeypatch.setattr(pyspark, "__file__", str(tmp_path / environment / "__init__.py"))
        return session._local_settings("local[2]", 0)["spark.driver.extraJavaOptions"].split('"')[1]

    here = archive_of("here")
    assert "-XX:ArchiveClassesAtExit=" in here
    assert archive_of("here") == here
    assert archive_of("there") != here
    os.utime(jars / "scala-library-2.13.jar", (1, 1))
    assert archive_of("here") != here, "it was installed anew"


def test_executors_here_read_the_archive_of_their_driver_and_write_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def options() -> tuple[str, str]:
        settings = session._local_settings("local-cluster[2,1,512]", 0)
        assert settings["spark.executor.extraClassPath"] == settings["spark.driver.extraClassPath"]
        return settings["spark.driver.extraJavaOptions"], settings["spark.executor.extraJavaOptions"]

    driver, executor = options()
    assert "ArchiveClassesAtExit" in driver
    assert "jsa" not in executor
    archive = Path(driver.split('"')[1].partition("=")[2])
    archive.write_bytes(b"")
    os.utime(archive, (1, 1))
    for each in options():
        assert f'"-XX:SharedArchiveFile={archive}"' in each
