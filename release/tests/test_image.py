"""The image: made by buildah from the package, run as its own user, with and without a tree around it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image import NAME, buildah


@pytest.fixture(scope="module")
def configuration(image: Path) -> dict[str, Any]:
    said = json.loads(buildah("inspect", "--type", "image", NAME, folder=image))
    found: dict[str, Any] = said["Docker"]["config"]
    return found


@pytest.fixture
def container(image: Path) -> Iterator[str]:
    name = buildah("from", "--pull-never", NAME, folder=image)
    yield name
    buildah("rm", name, folder=image)


def test_its_user_is_not_root_and_its_health_is_asked(configuration: dict[str, Any]) -> None:
    assert configuration["User"] == "7600:7600"
    assert configuration["Volumes"] == {"/var/lib/sapwood": {}}
    assert configuration["StopSignal"] == "SIGTERM"
    assert configuration["Healthcheck"]["Test"][0] == "CMD"


def test_a_node_runs_in_it_is_healthy_and_ends_well(
    image: Path, container: str, configuration: dict[str, Any]
) -> None:
    """In a network namespace of its own, which has its loopback and nothing else."""
    root = buildah("mount", container, folder=image)
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
    buildah("umount", container, folder=image)


def quoted(word: str) -> str:
    return word.replace("'", "'\\''")
