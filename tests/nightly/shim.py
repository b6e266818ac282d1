"""Builds `shim.c` with the machine's C compiler, and speaks to the nodes that it was loaded into."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

MISSING = "these trials need a C compiler: as root, apt-get install -y --no-install-recommends gcc libc6-dev"
SOURCE = Path(__file__).with_suffix(".c")


def build(folder: Path) -> Path:
    """The library, made anew."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, MISSING
    library = folder / "shim.so"
    made = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(made, check=True)
    return library


class Shim:
    """Of one node, through all its starts. `data`: the folder whose disk fails on command."""

    def __init__(self, library: Path, file: Path, data: Path) -> None:
        self._library = library
        self._file = file
        self._data = data
        file.write_bytes(bytes(24))
        with file.open("r+b") as opened:
            self._told = mmap.mmap(opened.fileno(), 24)

    def __repr__(self) -> str:
        ahead, error, failed = struct.unpack("=qqq", self._told[:])
        return f"<Shim of {self._data.name} clock={ahead / 1e9:+.0f}s errno={error} failed={failed}>"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "TRIAL_SHIM": str(self._file),
            "TRIAL_DATA": str(self._data),
        }

    def is_loaded(self, pid: int) -> bool:
        return str(self._library.resolve()) in Path(f"/proc/{pid}/maps").read_text()

    @property
    def failed(self) -> int:
        """How many writes and syncs have failed on command."""
        return int(struct.unpack("=q", self._told[16:24])[0])

    def set_clock(self, ahead: float) -> None:
        """From now on the clock of the wall is so many seconds ahead, or behind."""
        self._told[0:8] = struct.pack("=q", int(ahead * 1e9))

    def fail(self, error: int) -> None:
        """From now on nothing is written: each attempt ends with this errno. 0 heals the disk."""
        self._told[8:16] = struct.pack("=q", error)
