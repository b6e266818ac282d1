"""The packages are made once for all tests: of this checkout, and of the version before."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import build
import debian
import image as images
from machine import Machine

ROOT = HERE.parents[1]
BEFORE = ROOT / "tests" / "compatibility" / "0.1.0"
"""That version's data; it was recorded with the commit that added them."""


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("key") / "release"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", str(made)], check=True
    )
    return made


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """The folder of a release of this checkout; of one that is there already, `SAPWOOD_RELEASE`."""
    if made := os.environ.get("SAPWOOD_RELEASE"):
        return Path(made)
    out = tmp_path_factory.mktemp("release")
    build.release(out, key)
    return out


@pytest.fixture(scope="session")
def package(release: Path) -> Path:
    (found,) = release.glob("*.deb")
    return found


@pytest.fixture(scope="session")
def package_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 0.1.0 as it was, with its own lock, packed as today; or that of `SAPWOOD_RELEASE_BEFORE`."""
    if made := os.environ.get("SAPWOOD_RELEASE_BEFORE"):
        return next(Path(made).glob("*.deb"))
    commit = build.git(ROOT, "log", "--diff-filter=A", "--format=%H", "--", str(BEFORE / "tree.zip"))
    source, out = (tmp_path_factory.mktemp(name) for name in ("before", "release-before"))
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    wheels = [path for path in build.distributions(source, out) if path.suffix == ".whl"]
    return debian.make(wheels, source / "requirements" / "node.lock", BEFORE.name, out)[0]


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Path]:
    """The folder in which buildah and podman find the image; hundreds of megabytes, which go at the end."""
    folder = tmp_path_factory.mktemp("image")
    images.build(package, folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.root, ignore_errors=True)
