"""Files as the kernel writes them, in a folder of the test's own."""

import math
from pathlib import Path

import pytest

from broker.headroom import Headroom

MIB = 1024 * 1024


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="ascii")


def version_2(used: int, cached: int = 0, limit: str = str(256 * MIB)) -> dict[str, str]:
    stat = f"anon 5\ninactive_file {cached // 2}\nactive_file {cached // 2}\nfile 999999999"
    return {
        "proc/cgroup": "0::/a.slice/b.service",
        "a.slice/b.service/memory.max": limit,
        "a.slice/b.service/memory.current": str(used),
        "a.slice/b.service/memory.stat": stat,
        "a.slice/memory.max": "max",
        "a.slice/memory.current": "1",
    }


def version_1(used: int, cached: int = 0, limit: str = str(256 * MIB)) -> dict[str, str]:
    stat = f"inactive_file 999999999\ntotal_inactive_file {cached // 2}\ntotal_active_file {cached // 2}"
    return {
        "proc/cgroup": "5:cpu:/x\n4:memory:/c\n0::/",
        "memory/c/memory.limit_in_bytes": limit,
        "memory/c/memory.usage_in_bytes": str(used),
        "memory/c/memory.stat": stat,
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": "1",
    }


@pytest.mark.parametrize("version", [version_1, version_2])
def test_an_eighth_of_the_limit_is_kept_free_and_cached_files_are_free(tmp_path: Path, version) -> None:  # type: ignore[no-untyped-def]
    def left(*arguments: object) -> float:
        lay(tmp_path, version(*arguments))
        return Headroom(tmp_path, tmp_path / "proc").left()

    assert left(100 * MIB) == (256 - 32 - 100) * MIB
    assert left(240 * MIB) == -16 * MIB
    assert left(240 * MIB, 100 * MIB) == 84 * MIB
    assert left(4000 * MIB, 0, str(4096 * MIB)) == 32 * MIB
    assert left(4000 * MIB, 0, "9223372036854771712") == math.inf


def test_a_limit_of_a_group_above_counts(tmp_path: Path) -> None:
    lay(tmp_path, version_2(1, limit="max"))
    headroom = Headroom(tmp_path, tmp_path / "proc")
    assert headroom.left() == math.inf
    lay(tmp_path, {"a.slice/memory.max": str(64 * MIB), "a.slice/memory.current": str(60 * MIB)})
    assert headroom.left() == -4 * MIB


def test_where_nothing_is_said_nothing_is_limited(tmp_path: Path) -> None:
    assert Headroom(tmp_path, tmp_path / "none").left() == math.inf
