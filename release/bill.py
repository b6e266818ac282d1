"""The bill of materials (SBOM) of the package: CycloneDX, made by its own tool from what is installed.

The tool lists names, versions, licences and who needs whom. The SHA-256 of the file that pip has taken for
each is added here: it is one of those in the lock. So is that the node needs the client.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]


def write(python: Path, taken: dict[str, str], version: str, target: Path) -> None:
    """Of all that the interpreter `python` finds. `taken`: SHA-256 by the package's name."""
    words = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    words += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
    done = subprocess.run([*words, "--output-format", "JSON", str(python)], check=True, capture_output=True)
    said = json.loads(done.stdout)
    said["metadata"]["component"]["version"] = version
    for component in said["components"]:
        add_hash(component, taken)
    add_client(said)
    target.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def add_hash(component: dict[str, Any], taken: dict[str, str]) -> None:
    component["hashes"] = [{"alg": "SHA-256", "content": taken[normal(component["name"])]}]


def add_client(said: dict[str, Any]) -> None:
    """The node needs the client of its own version, which its wheel names and pyproject.toml does not."""
    node = said["metadata"]["component"]["bom-ref"]
    client = [each["bom-ref"] for each in said["components"] if normal(each["name"]) == "sapwood-client"]
    for entry in said["dependencies"]:
        if entry["ref"] == node:
            entry["dependsOn"] = sorted({*entry.get("dependsOn", ()), *client})


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
