#!/usr/bin/env python3
"""Makes a release: wheels, the Debian package, its bill of materials, checksums and their signature.

    python release/build.py --out dist                     # all but the signature
    python release/build.py --out dist --key ~/.ssh/release

Needs `build` and `cyclonedx-bom` (tox -e packages has them), dpkg-deb, and the Python that the package is
for: the one of the Debian on which this runs. A commit that no tag `vVERSION` names makes
`VERSION+git.COUNT.HASH`.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

import checksums
import debian
from errors import ReleaseError

ROOT: Final = Path(__file__).parents[1]


def main() -> int:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    reader.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for what is made")
    reader.add_argument("--key", type=Path, help="private key (ssh-keygen) that signs the checksums")
    asked = reader.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        made = release(asked.out, asked.key)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(path)
    return 0


def release(out: Path, key: Path | None) -> list[Path]:
    """The files of a release, the checksums last and their signature after them."""
    archives = distributions(ROOT, out)
    lock = ROOT / "requirements" / "node.lock"
    wheels = [path for path in archives if path.suffix == ".whl"]
    package = debian.make(wheels, lock, version_of(ROOT), out)
    beside = [Path(shutil.copy(path, out)) for path in (lock, ROOT / "docs" / "licences.md")]
    files = [*archives, *package, *beside]
    sums = checksums.write(files, out / "SHA256SUMS")
    return [*files, sums, *([checksums.sign(sums, key)] if key else [])]


def distributions(source: Path, out: Path) -> list[Path]:
    """Client first, then the node; each wheel by way of its sdist, so that it names the version alone."""
    parts = [source / "client", source] if (source / "client").is_dir() else [source]
    made: list[Path] = []
    for part in parts:
        before = set(out.iterdir())
        command = [sys.executable, "-m", "build", "--outdir", str(out), str(part)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ReleaseError(f"{part} cannot be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        made += sorted(set(out.iterdir()) - before)
    if not made:
        raise ReleaseError(f"{out} has these distributions already: choose an empty folder")
    return made


def version_of(source: Path) -> str:
    """Of the Debian package: that of the project at its tag; else a higher one that names the commit."""
    version: str = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if f"v{version}" in git(source, "tag", "--points-at", "HEAD").split():
        return version
    count, commit = git(source, "rev-list", "--count", "HEAD"), git(source, "rev-parse", "--short=8", "HEAD")
    return f"{version}+git.{count}.{commit}"


def git(source: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(source), *words], capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{source} is no checkout: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
