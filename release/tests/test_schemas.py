"""The compose file and the manifest for k3s, against the schemas of Compose and of Kubernetes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

IMAGE = Path(__file__).parents[1] / "image"
COMPOSE = IMAGE / "compose.yaml"
MANIFEST = list(yaml.safe_load_all((IMAGE / "k3s.yaml").read_text()))


def asked(file: Path) -> subprocess.CompletedProcess[str]:
    """The schema of Compose comes with the program: nothing is fetched."""
    words = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run([sys.executable, *words], capture_output=True, text=True)


def test_compose_knows_every_word_of_its_file(tmp_path: Path) -> None:
    done = asked(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr
    (misspelt := tmp_path / "compose.yaml").write_text(COMPOSE.read_text().replace("cap_drop", "cap_drops"))
    assert "cap_drops" in asked(misspelt).stdout


@pytest.mark.parametrize("part", MANIFEST, ids=lambda part: part["kind"])
def test_kubernetes_knows_every_word_of_the_manifest(part: dict[str, Any]) -> None:
    kubernetes_validate.validate(part, kubernetes_validate.latest_version(), strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(part | {"spek": {}}, kubernetes_validate.latest_version(), strict=True)
