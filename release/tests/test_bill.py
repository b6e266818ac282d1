"""The bill of materials: it says of a release what the lock says, and the files that lie beside it."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bill import normal
from packaging.requirements import Requirement


@pytest.fixture(scope="module")
def said(release: Path) -> dict[str, Any]:
    (file,) = release.glob("*.cdx.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def locked(release: Path) -> dict[str, tuple[str, set[str]]]:
    """Version and SHA-256 of the files that may be taken, by the packages that this machine needs."""
    found = {}
    for entry in re.split(r"^(?=\S)", (release / "node.lock").read_text(), flags=re.MULTILINE):
        wanted, _, rest = entry.partition("\\\n")
        if not wanted.strip() or wanted.startswith("#"):
            continue
        requirement = Requirement(wanted)
        if requirement.marker is None or requirement.marker.evaluate():
            (version,) = (each.version for each in requirement.specifier)
            found[normal(requirement.name)] = version, {*re.findall(r"--hash=sha256:([0-9a-f]{64})", rest)}
    return found


def test_it_lists_the_packages_of_the_lock_each_with_a_file_of_it(
    release: Path, said: dict[str, Any]
) -> None:
    lock = locked(release)
    listed = {normal(each["name"]): each for each in said["components"]}
    assert {*listed} == {*lock, "sapwood-client"}
    for name, (version, hashes) in lock.items():
        (taken,) = listed[name]["hashes"]
        assert (listed[name]["version"], taken["alg"]) == (version, "SHA-256")
        assert taken["content"] in hashes
        assert listed[name]["purl"] == f"pkg:pypi/{name}@{version}"
        assert listed[name]["licenses"]


def test_it_says_which_client_the_package_has_and_names_the_package_s_version(
    release: Path, package: Path, said: dict[str, Any]
) -> None:
    (client,) = (each for each in said["components"] if each["name"] == "sapwood-client")
    (wheel,) = release.glob("sapwood_client-*.whl")
    assert client["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    component = said["metadata"]["component"]
    version = subprocess.check_output(["dpkg-deb", "--field", package, "Version"], text=True).strip()
    assert (component["name"], component["version"]) == ("sapwood-node", version)


def test_who_needs_whom_is_said_of_what_is_listed(said: dict[str, Any]) -> None:
    refs = {each["bom-ref"] for each in said["components"]} | {said["metadata"]["component"]["bom-ref"]}
    needs = {each["ref"]: {*each.get("dependsOn", ())} for each in said["dependencies"]}
    assert {*needs} == refs
    # All that is there is there because something needs it.
    assert set.union(*needs.values()) == refs - {said["metadata"]["component"]["bom-ref"]}


def test_the_package_brings_the_same(package: Path, said: dict[str, Any]) -> None:
    archive = subprocess.check_output(["dpkg-deb", "--fsys-tarfile", package])
    place = "./usr/share/doc/sapwood-node/sbom.cdx.json"
    assert json.loads(subprocess.check_output(["tar", "-xO", place], input=archive)) == said
