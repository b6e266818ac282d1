"""The image: made by buildah from the package, run as its own user, with and without a tree around it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import base

HERE = Path(__file__).parents[1]
BUILDAH = ("buildah", "--storage-driver", "vfs")


def buildah(*words: str, folder: Path) -> str:
    storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "run")]
    done = subprocess.run([*BUILDAH, *storage, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Path:
    """Where buildah keeps the base, which is Debian as on the machines of the other tests, and the image."""
    folder = tmp_path_factory.mktemp("image")
    empty = buildah("from", "scratch", folder=folder)
    buildah("add", "--quiet", empty, str(base()), "/", folder=folder)
    buildah("commit", "--quiet", empty, "localhost/debian", folder=folder)
    context = folder / "context"
    context.mkdir()
    for source in (HERE / "image" / "Containerfile", package):
        name = "sapwood-node.deb" if source == package else source.name
        (context / name).write_bytes(source.read_bytes())
    words = ["build", "--pull-never", "--format", "docker", "--isolation", "chroot"]
    words += ["--build-arg", "BASE=localhost/debian", "--tag", "localhost/sapwood-node"]
    buildah(*words, str(context), folder=folder)
    return folder


@pytest.fixture(scope="module")
def configuration(folder: Path) -> dict[str, Any]:
    said = json.loads(buildah("inspect", "--type", "image", "localhost/sapwood-node", folder=folder))
    found: dict[str, Any] = said["Docker"]["config"]
    return found


@pytest.fixture
def container(folder: Path) -> Iterator[str]:
    name = buildah("from", "--pull-never", "localhost/sapwood-node", folder=folder)
    yield name
    buildah("rm", name, folder=folder)


def test_its_user_is_not_root_and_its_health_is_asked(configuration: dict[str, Any]) -> None:
    assert configuration["User"] == "7600:7600"
    assert configuration["Volumes"] == {"/var/lib/sapwood": {}}
    assert configuration["StopSignal"] == "SIGTERM"
    assert configuration["Healthcheck"]["Test"][0] == "CMD"


def test_a_node_runs_in_it_is_healthy_and_ends_well(
    folder: Path, container: str, configuration: dict[str, Any]
) -> None:
    """In a network namespace of its own, which has its loopback and nothing else."""
    root = buildah("mount", container, folder=folder)
    inside = ["chroot", "--userspec", configuration["User"], root]
    health = " ".join(f"'{word}'" for word in map(quoted, configuration["Healthcheck"]["Test"][1:]))
    command = " ".join([*configuration["Entrypoint"], *configuration["Cmd"]])
    script = "\n".join(
        [
            "ip link set lo up",
            f"{' '.join(inside)} sh -c 'cd /var/lib/sapwood && exec {command}' & node=$!",
            f"until {' '.join(inside)} {health} 2>/dev/null; do kill -0 $node || exit 9; sleep 0.5; done",
            f"{' '.join(inside)} sapwood send queue:prices '46 pence'",
            f"{' '.join(inside)} sapwood receive queue:prices",
            "kill $node; wait $node",
        ]
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "46 pence" in done.stdout
    owners = {path.stat().st_uid for path in Path(root, "var/lib/sapwood").rglob("*")}
    assert owners == {7600}
    buildah("umount", container, folder=folder)


def quoted(word: str) -> str:
    return word.replace("'", "'\\''")
