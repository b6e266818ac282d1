"""The Debian package: the node and its locked dependencies in a virtual environment, /usr/lib/sapwood.

pip takes each file by its hash from the lock, and the wheels of the node from where they were built. The same
commit makes the same bytes: times are the commit's, and compiled files are checked by their source's hash.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any, Final

import bill
from errors import ReleaseError

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = Path(__file__).parent / "debian"
HOME: Final = "usr/lib/sapwood"
SCRIPTS: Final = ("preinst", "postinst", "prerm", "postrm")
UNITS: Final = ("monitoring/sapwood.service", "zero-touch/sapwood@.service")
PIP: Final = (
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--no-compile",
    "--no-warn-script-location",
)


def make(wheels: list[Path], lock: Path, version: str, out: Path) -> list[Path]:
    """The package and its bill of materials, in `out`."""
    architecture = said_by("dpkg", "--print-architecture")
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "stage"
        stage.mkdir(mode=0o755)
        taken = environment(stage, wheels, lock)
        materials = out / f"sapwood-node_{version}_{architecture}.cdx.json"
        bill.write(stage / HOME / "bin" / "python3", taken, version, materials)
        files(stage, lock, materials)
        control(stage, version, architecture)
        package = out / f"sapwood-node_{version}_{architecture}.deb"
        words = ["dpkg-deb", "--root-owner-group", "-Zzstd", "--build", str(stage), str(package)]
        subprocess.run(
            words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": epoch()}
        )
    return [package, materials]


def environment(stage: Path, wheels: list[Path], lock: Path) -> dict[str, str]:
    """Fills the virtual environment; returns the SHA-256 of each file that pip has installed, by package."""
    home = stage / HOME
    packages = home / "lib" / f"python{python()}" / "site-packages"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    taken: dict[str, str] = {}
    locked = ["--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
    for number, wanted in enumerate([locked, [str(wheel) for wheel in wheels]]):
        report = stage.parent / f"report-{number}.json"
        words = ["--target", str(packages), "--upgrade", "--report", str(report), *wanted]
        subprocess.run([sys.executable, "-m", "pip", "install", *PIP, *words], check=True)
        for each in json.loads(report.read_text("utf-8"))["install"]:
            taken[bill.normal(each["metadata"]["name"])] = sha256(each["download_info"]["archive_info"])
    # pip notes where the wheels lay on this machine, and makes programs that begin with its own Python.
    for note in packages.glob("*.dist-info/direct_url.json"):
        note.unlink()
    shutil.rmtree(packages / "bin", ignore_errors=True)
    programs(home, packages)
    words = ["-q", "-s", str(stage), "-p", "/", "--invalidation-mode", "unchecked-hash", str(packages)]
    subprocess.run(["/usr/bin/python3", "-m", "compileall", *words], check=True)
    return taken


def sha256(archive: dict[str, Any]) -> str:
    """Of a file that pip tells of. Debian 12 has a pip that says that of a wheel by its former name."""
    told: str = archive.get("hashes", {}).get("sha256") or archive["hash"].removeprefix("sha256=")
    return told


def programs(home: Path, packages: Path) -> None:
    """`bin/sapwood` and others, by the entry points that the wheels name; isolated from the caller's Python
    settings."""
    for wheel in packages.glob("sapwood*.dist-info"):
        for entry in PathDistribution(wheel).entry_points.select(group="console_scripts"):
            target = home / "bin" / entry.name
            lines = [
                f"#!/{HOME}/bin/python3 -I",
                f"from {entry.module} import {entry.attr}",
                "",
                f"{entry.attr}()",
                "",
            ]
            target.write_text("\n".join(lines))
            target.chmod(0o755)


def files(stage: Path, lock: Path, materials: Path) -> None:
    """All that lies outside the virtual environment."""
    (stage / "usr" / "bin").mkdir(parents=True)
    for program in (stage / HOME / "bin").glob("sapwood*"):
        (stage / "usr" / "bin" / program.name).symlink_to(f"../lib/sapwood/bin/{program.name}")
    put(PARTS / "sapwood-rollback", stage / "usr/sbin/sapwood-rollback", 0o755)
    put(PARTS / "site.yaml", stage / "usr/share/sapwood-node/site.yaml")
    for unit in UNITS:
        source = ROOT / "examples" / unit
        target = stage / "lib/systemd/system" / source.name
        put(source, target)
        target.write_text(
            source.read_text("utf-8").replace("/usr/local/bin/sapwood", "/usr/bin/sapwood"), "utf-8"
        )
    documents = stage / "usr/share/doc/sapwood-node"
    for source in (PARTS / "copyright", lock, ROOT / "docs" / "licences.md"):
        put(source, documents / source.name)
    put(materials, documents / "sbom.cdx.json")
    history = (ROOT / "CHANGELOG.md").read_bytes()
    (documents / "changelog.gz").write_bytes(gzip.compress(history, mtime=0))


def put(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def control(stage: Path, version: str, architecture: str) -> None:
    """The package's own description and scripts; last, since it says how large the rest is."""
    major, minor = python().split(".")
    size = sum(path.lstat().st_size for path in stage.rglob("*") if not path.is_dir())
    said = {
        "VERSION": version,
        "ARCHITECTURE": architecture,
        "PYTHON": python(),
        "NEXT_PYTHON": f"{major}.{int(minor) + 1}",
        "SIZE": str(-(-size // 1024)),
    }
    text = (PARTS / "control").read_text("utf-8")
    for name, value in said.items():
        text = text.replace(f"@{name}@", value)
    folder = stage / "DEBIAN"
    folder.mkdir(mode=0o755)
    (folder / "control").write_text(text, "utf-8")
    for script in SCRIPTS:
        put(PARTS / script, folder / script, 0o755)
    for path in stage.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def python() -> str:
    """Major and minor number of Debian's Python, for which wheels are chosen; this one has to be of them."""
    debian = said_by("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    own = "{}.{}".format(*sys.version_info)
    if own != debian:
        raise ReleaseError(f"this is Python {own}, and /usr/bin/python3 is {debian}: run with that one")
    return debian


def epoch() -> str:
    """Seconds of the commit, or as the environment says, by the custom of reproducible builds."""
    return os.environ.get("SOURCE_DATE_EPOCH") or said_by("git", "-C", str(ROOT), "log", "-1", "--format=%ct")


def said_by(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
