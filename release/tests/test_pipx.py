"""Both wheels of a release as users install them: the node by pipx, the client beside an application."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

OWN = "import importlib.metadata as m; print(*sorted(set(m.packages_distributions()) & set({0!r})))"
HOUSES = ("audit", "bridges", "broker", "config", "interfaces", "sapwood", "simulation", "treeconnector")


@pytest.fixture(scope="module")
def programs(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pipx puts the commands of `sapwood-node`."""
    folder = tmp_path_factory.mktemp("pipx")
    places = {
        "PIPX_HOME": str(folder),
        "PIPX_BIN_DIR": str(folder / "bin"),
        "PIPX_MAN_DIR": str(folder / "man"),
    }
    words = ["-m", "pipx", "install", f"--pip-args=--find-links {release}", "sapwood-node"]
    done = subprocess.run([sys.executable, *words], env=os.environ | places, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"


def test_pipx_installs_a_node_that_reads_a_file(programs: Path, release: Path, tmp_path: Path) -> None:
    (wheel,) = release.glob("sapwood_node-*.whl")
    said = subprocess.run([programs / "sapwood", "--version"], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["sapwood", wheel.name.split("-")[1]]
    (tmp_path / "hq.yaml").write_text("broker: {name: hq, tree: acme}\n")
    words = [programs / "sapwood", "node", "check", tmp_path / "hq.yaml"]
    assert (
        "root 'hq' of tree 'acme'" in subprocess.run(words, check=True, capture_output=True, text=True).stdout
    )


def test_an_application_gets_the_package_of_the_client_and_no_other_of_ours(
    release: Path, tmp_path: Path
) -> None:
    (wheel,) = release.glob("sapwood_client-*.whl")
    venv.create(tmp_path / "application", with_pip=True)
    python = tmp_path / "application" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    said = subprocess.run([python, "-c", OWN.format(HOUSES)], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["sapwood"]
    subprocess.run([python, "-c", "import sapwood.sync"], check=True)
    words = [tmp_path / "application" / "bin" / "sapwood-channel"]
    assert "usage: sapwood-channel" in subprocess.run(words, capture_output=True, text=True).stderr
