"""The image, made by buildah from the package, in a folder apart from the images of this machine."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from machine import base

PARTS: Final = Path(__file__).parents[1] / "image"
NAME: Final = "localhost/sapwood-node"


def storage(folder: Path) -> list[str]:
    """Options of buildah and of podman."""
    return ["--storage-driver", "vfs", "--root", str(folder / "storage"), "--runroot", str(folder / "run")]


def buildah(*words: str, folder: Path) -> str:
    done = subprocess.run(["buildah", *storage(folder), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def build(package: Path, folder: Path) -> None:
    """Of Debian as on the machines of the other tests."""
    empty = buildah("from", "scratch", folder=folder)
    buildah("add", "--quiet", empty, str(base()), "/", folder=folder)
    buildah("commit", "--quiet", empty, "localhost/debian", folder=folder)
    buildah("rm", empty, folder=folder)
    context = folder / "context"
    context.mkdir()
    shutil.copy(PARTS / "Containerfile", context)
    shutil.copy(package, context / "sapwood-node.deb")
    words = ["build", "--pull-never", "--format", "docker", "--isolation", "chroot"]
    words += ["--build-arg", "BASE=localhost/debian", "--tag", NAME]
    buildah(*words, str(context), folder=folder)
