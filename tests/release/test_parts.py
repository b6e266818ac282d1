"""The parts of a release that need no chroot: scripts, units, image, manifests, checksums, versions."""

import fcntl
import os
import re
import runpy
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import yaml as site_yaml

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "release"
DEBIAN = RELEASE / "debian"
UNITS = [ROOT / "examples/monitoring/sapwood.service", ROOT / "examples/zero-touch/sapwood@.service"]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of one program of the folder, which finds its neighbours as it does when it is run."""
    monkeypatch.syspath_prepend(str(RELEASE))
    before = set(sys.modules)

    def run(name: str) -> dict[str, Any]:
        found = runpy.run_path(str(RELEASE / f"{name}.py"))
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(RELEASE)):
                del sys.modules[module]
        return found

    return run


@pytest.mark.parametrize("script", ["preinst", "postinst", "prerm", "postrm", "sapwood-rollback"])
def test_scripts_of_the_package_are_read_by_a_shell_and_end_at_the_first_fault(script: str) -> None:
    path = DEBIAN / script
    subprocess.run(["dash", "-n", str(path)], check=True)
    assert "\nset -e\n" in path.read_text()


class Scripts:
    """The package's scripts, on folders below `root`, with `version` installed and without systemd."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data, self.kept = root / "var/lib/sapwood", root / "var/lib/sapwood-kept"
        self.programs = root / "bin"
        for folder in (self.data.parent, self.programs, root / "disk"):
            folder.mkdir(parents=True)

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, script: str, *words: str, version: str = "") -> subprocess.CompletedProcess[str]:
        text = (DEBIAN / script).read_text()
        for place in ("/var/lib", "/run/systemd", "/etc/sapwood", "/usr/share/sapwood-node"):
            text = text.replace(place, f"{self.root}{place}")
        self.program("dpkg-query", f"echo {version}")
        environment = {"PATH": f"{self.programs}:/usr/bin:/bin"}
        return subprocess.run(
            ["dash", "-c", text, script, *words], env=environment, capture_output=True, text=True
        )

    def folders(self) -> list[str]:
        return sorted(path.name.partition("-")[0] for path in self.kept.iterdir())


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_the_data_of_a_folder_that_is_a_link_are_kept_and_come_back(scripts: Scripts) -> None:
    disk = scripts.root / "disk/sapwood"
    disk.mkdir()
    (disk / "node.db").write_text("old")
    scripts.data.symlink_to(disk)
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 0
    assert not (scripts.kept / "1.0").is_symlink()
    (disk / "node.db").write_text("new")
    done = scripts.run("sapwood-rollback", version="1.0")
    assert done.returncode == 0, done.stderr
    assert scripts.data.is_symlink()
    assert (disk / "node.db").read_text() == "old"


def test_a_certificate_that_was_renewed_since_stays_as_the_parent_knows_its_key_only(
    scripts: Scripts,
) -> None:
    (scripts.data / "tls").mkdir(parents=True)
    for name in ("node.db", "tls/node.pem"):
        (scripts.data / name).write_text("old")
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 0
    for name in ("node.db", "tls/node.pem", "tls/authorities.pem"):
        (scripts.data / name).write_text("new")
    done = scripts.run("sapwood-rollback", version="1.0")
    assert done.returncode == 0, done.stderr
    read = {path.name: path.read_text() for path in scripts.data.rglob("*") if path.is_file()}
    assert read == {"node.db": "old", "node.pem": "new", "authorities.pem": "new"}


@pytest.mark.parametrize("link", ["", "tls", "york", "york/tls", "york/tls/node.pem", "york/tls/more"])
def test_no_link_among_the_data_leads_a_roll_back_elsewhere(scripts: Scripts, link: str) -> None:
    """The user of the nodes laid it there before the upgrade; it is root who copies."""
    there, tls = scripts.root / "there", scripts.data / "york/tls"
    (there / "tls").mkdir(parents=True)
    for name in ("node.pem", "tls/node.pem"):
        (there / name).write_text("of root")
    tls.mkdir(parents=True)
    (tls / "node.pem").write_text("old")
    if link:
        place = scripts.data / link
        subprocess.run(["rm", "-rf", str(place)], check=True)
        place.symlink_to(there / "node.pem" if link.endswith("pem") else there)
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 0
    subprocess.run(["rm", "-rf", str(scripts.data)], check=True)
    for folder in (scripts.data / "tls", tls, tls / "more"):
        folder.mkdir(parents=True)
        (folder / "node.pem").write_text("new")
    scripts.run("sapwood-rollback", version="1.0")
    files = {path.relative_to(there).as_posix(): path.read_text() for path in there.rglob("*.pem")}
    assert files == {"node.pem": "of root", "tls/node.pem": "of root"}
    if not link:
        assert (tls / "node.pem").read_text() == "new"


def test_a_roll_back_that_is_asked_for_twice_throws_nothing_away(scripts: Scripts) -> None:
    scripts.data.mkdir()
    scripts.run("preinst", "upgrade", "1.0")
    (scripts.data / "node.db").write_text("new")
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0
    (scripts.data / "node.db").write_text("since")
    again = scripts.run("sapwood-rollback", version="1.0")
    assert (again.returncode, "no data of 1.0" in again.stderr) == (1, True)
    assert (scripts.data / "node.db").read_text() == "since"
    (replaced,) = scripts.kept.iterdir()
    assert (replaced / "node.db").read_text() == "new"


@pytest.mark.parametrize("runs", [0, 1])
def test_a_roll_back_in_which_the_power_goes_leaves_all_of_the_old_data_or_all_of_the_new(
    scripts: Scripts, runs: int
) -> None:
    """The nodes are started with what is there: it was nothing, and they began anew."""
    scripts.data.mkdir()
    (scripts.data / "node.db").write_text("old")
    scripts.run("preinst", "upgrade", "1.0")
    (scripts.data / "node.db").write_text("new")
    cut = "python3" if runs == 0 else "mv"
    scripts.program(cut, "kill -9 $PPID")
    assert scripts.run("sapwood-rollback", version="1.0").returncode == -9
    assert (scripts.data / "node.db").read_text() == ("new", "old")[runs]
    (scripts.data / "node.db").write_text(("new", "old, and since")[runs])
    (scripts.programs / cut).unlink()
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0
    assert (scripts.data / "node.db").read_text() == ("old", "old, and since")[runs]
    (replaced,) = scripts.kept.iterdir()
    assert (replaced.name.partition("-")[0], (replaced / "node.db").read_text()) == ("replaced", "new")


def test_a_roll_back_in_which_the_power_goes_last_spoils_no_later_one(scripts: Scripts) -> None:
    """It left its note, by which the next took the new data for the old."""
    scripts.data.mkdir()
    (scripts.data / "node.db").write_text("old")
    scripts.run("preinst", "upgrade", "1.0")
    scripts.program("rm", "kill -9 $PPID")
    assert scripts.run("sapwood-rollback", version="1.0").returncode == -9
    (scripts.programs / "rm").unlink()
    next(scripts.kept.glob("replaced-*")).rename(scripts.root / "replaced")  # its name is of a second
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 0
    (scripts.data / "node.db").write_text("new")
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0
    assert (scripts.data / "node.db").read_text() == "old"


def test_a_roll_back_goes_on_where_the_power_went(scripts: Scripts) -> None:
    """On a file system where two folders cannot change places."""
    scripts.program("python3", "exit 1")
    scripts.data.mkdir()
    (scripts.data / "node.db").write_text("old")
    scripts.run("preinst", "upgrade", "1.0")
    scripts.program("mv", 'case "$2" in *sapwood-kept*) exit 9;; esac; exec /bin/mv "$@"')
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 9
    assert not scripts.data.exists()
    (scripts.programs / "mv").unlink()
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0
    assert (scripts.data / "node.db").read_text() == "old"


def test_data_on_a_file_system_of_their_own_are_not_touched(scripts: Scripts) -> None:
    scripts.data.mkdir()
    scripts.run("preinst", "upgrade", "1.0")
    scripts.program("mountpoint", "exit 0")
    done = scripts.run("sapwood-rollback", version="1.0")
    assert (done.returncode, "file system of its own" in done.stderr) == (1, True)
    assert scripts.data.exists()
    assert scripts.folders() == ["1.0"]


def test_data_that_a_node_of_another_unit_has_are_not_copied_and_not_moved(scripts: Scripts) -> None:
    (scripts.data / "hq").mkdir(parents=True)
    scripts.run("preinst", "upgrade", "1.0")
    with (scripts.data / "hq/node.lock").open("w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (("preinst", "upgrade", "1.1"), ("sapwood-rollback",)):
            done = scripts.run(*words, version="1.0")
            assert (done.returncode, "process 4711 (" in done.stderr) == (1, True), done.stderr
        assert scripts.folders() == ["1.0"]
    assert scripts.run("preinst", "upgrade", "1.1").returncode == 0
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0


def test_no_lock_that_is_a_link_or_a_pipe_leads_root_elsewhere_or_holds_it_up(scripts: Scripts) -> None:
    """The nodes' user may lay it there."""
    for name in ("link", "pipe"):
        (scripts.data / name).mkdir(parents=True)
    (scripts.data / "link/node.lock").symlink_to(scripts.root / "nologin")
    os.mkfifo(scripts.data / "pipe/node.lock")
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 0
    assert scripts.run("sapwood-rollback", version="1.0").returncode == 0
    assert not (scripts.root / "nologin").exists()


def test_a_copy_that_ends_early_leaves_no_half(scripts: Scripts) -> None:
    scripts.data.mkdir()
    scripts.program("cp", 'for last; do :; done; mkdir -p "$last"; exit 1')
    assert scripts.run("preinst", "upgrade", "1.0").returncode == 1
    assert scripts.folders() == []


def test_data_are_kept_over_a_removal_and_two_versions_of_them_stay(scripts: Scripts) -> None:
    scripts.data.mkdir()
    (scripts.kept / "replaced-20260101T000000").mkdir(parents=True)
    assert scripts.run("preinst", "install", "0.9").returncode == 0
    for version in ("1.0", "1.1"):
        assert scripts.run("preinst", "upgrade", version).returncode == 0
    assert scripts.folders() == ["1.0", "1.1", "replaced"]
    assert scripts.run("preinst", "install").returncode == 0


def test_a_half_that_a_power_cut_left_takes_no_room_from_the_next_copy(scripts: Scripts) -> None:
    scripts.data.mkdir()
    (scripts.kept / ".making").mkdir(parents=True)
    scripts.program(
        "df", f'[ -e {scripts.kept}/.making ] && free=0; printf "x\\nx 0 0 ${{free:-999999}} 0 x\\n"'
    )
    done = scripts.run("preinst", "upgrade", "1.0")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_upgrade_leaves_the_room_that_a_node_needs_to_take_messages(scripts: Scripts) -> None:
    reserve = site_yaml.read("broker: {name: hq, tree: acme}").limits.disk_reserve
    scripts.data.mkdir()
    scripts.program("du", "printf '4000\\tx'")
    for free, code in ((4000 + reserve // 1024, 1), (4000 + 2 * reserve // 1024, 0)):
        scripts.program("df", f'printf "x\\nx 0 0 {free} 0 x\\n"')
        assert scripts.run("preinst", "upgrade", "1.0").returncode == code
        assert scripts.folders() == ["1.0"] * (not code)


def test_the_file_of_a_site_is_laid_once_and_dpkg_never_asks_about_it(scripts: Scripts) -> None:
    default, site = (
        scripts.root / name for name in ("usr/share/sapwood-node/site.yaml", "etc/sapwood/site.yaml")
    )
    default.parent.mkdir(parents=True)
    default.write_text("of the package")
    for name in ("adduser", "deb-systemd-helper"):
        scripts.program(name, "exit 0")
    scripts.program(
        "install",
        'for word; do shift; case $word in -o|-g|root|sapwood) ;; *) set -- "$@" "$word";; esac; done\n'
        'exec /usr/bin/install "$@"',
    )
    assert scripts.run("postinst", "configure").returncode == 0
    assert (site.read_text(), site.parent.stat().st_mode & 0o777) == ("of the package", 0o750)
    site.write_text("of the site")
    default.write_text("of the next version")
    assert scripts.run("postinst", "configure", "1.0").returncode == 0
    assert site.read_text() == "of the site"
    # Nor does it come back where somebody has removed it; a purge takes it, and leaves what else is there.
    (site.parent / "secret").touch()
    assert scripts.run("postrm", "purge").returncode == 0
    assert scripts.run("postinst", "configure", "1.0").returncode == 0
    assert [path.name for path in site.parent.iterdir()] == ["secret"]
    (site.parent / "secret").unlink()
    assert scripts.run("postrm", "purge").returncode == 0
    assert not site.parent.exists()


def test_no_file_of_the_package_is_one_that_dpkg_would_ask_about() -> None:
    assert not (DEBIAN / "conffiles").exists()
    assert '"etc/' not in (RELEASE / "debian.py").read_text()


def test_the_hash_of_a_file_is_read_as_pip_tells_it_now_and_as_debian_s_own_does(program: Any) -> None:
    sha256 = program("debian")["sha256"]
    assert sha256({"hash": "sha256=ab"}) == sha256({"hashes": {"sha256": "ab"}}) == "ab"


def test_the_default_file_is_a_site_that_this_machine_alone_reaches() -> None:
    read = site_yaml.read((DEBIAN / "site.yaml").read_text())
    assert read.listener.host == "127.0.0.1"
    assert read.tree_connectors == ()
    assert str(read.data).startswith("/var/lib/sapwood/")


def test_the_example_in_the_default_file_is_one_too() -> None:
    lines = (DEBIAN / "site.yaml").read_text().splitlines()
    example = "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))
    read = site_yaml.read(example)
    assert (read.name, read.tree_connectors[0].nodetype) == ("store-0042", "leaf")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_hardened_alike(unit: Path) -> None:
    section = unit.read_text().partition("[Service]")[2].partition("[Install]")[0]
    lines = [line for line in section.splitlines() if line and not line.startswith(("#", "ExecStart="))]
    other = next(each for each in UNITS if each != unit).read_text()
    assert [line for line in lines if line not in other] == []
    hardened = ("CapabilityBoundingSet=", "ProtectSystem=strict", "SystemCallFilter=@system-service")
    for line in (*hardened, "ExecReload=/bin/kill -HUP $MAINPID", "RestartForceExitStatus=SIGHUP"):
        assert line in lines


def test_the_image_runs_as_a_number_that_is_not_root_and_is_asked_for_its_health() -> None:
    text = (RELEASE / "image" / "Containerfile").read_text()
    assert re.search(r"^USER 7600:7600$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/sapwood$", text, re.MULTILINE)
    assert text.index("path-include=/usr/share/doc/sapwood-node/") < text.index("dpkg --install")


def test_sites_of_the_compose_file_are_one_tree() -> None:
    said = yaml.safe_load((RELEASE / "image" / "compose.yaml").read_text())
    hq, york = (site_yaml.read((RELEASE / "image" / f"{name}.yaml").read_text()) for name in ("hq", "york"))
    (connector,) = york.tree_connectors
    assert connector.uri.startswith("ws://hq:")
    assert (hq.name in said["services"], hq.tree) == (True, york.tree)
    assert [child.name for child in hq.children] == ["york"]
    for name, service in said["services"].items():
        assert f"{name}:/var/lib/sapwood" in service["volumes"]
        assert service["read_only"]
        assert f"./{name}.yaml:/etc/sapwood/site.yaml:ro" in service["volumes"]
        assert set(service["secrets"]) == set(said["secrets"])


def test_the_manifest_has_one_store_with_a_volume_and_no_rights() -> None:
    text = (RELEASE / "image" / "k3s.yaml").read_text()
    found = {each["kind"]: each for each in yaml.safe_load_all(text)}
    site = site_yaml.read(found["ConfigMap"]["data"]["site.yaml"])
    spec = found["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    claims = {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
    assert spec["replicas"] == 1
    assert claims == {"data"}
    assert str(site.data).startswith(mounts["data"])
    assert set(mounts) == claims | {each["name"] for each in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_checksums_are_signed_and_a_changed_file_or_another_key_is_found(
    tmp_path: Path, program: Any
) -> None:
    checksums = program("checksums")
    for name in ("key", "other"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", str(tmp_path / name)]
        subprocess.run(words, check=True)
    file = tmp_path / "sapwood-node.deb"
    file.write_bytes(b"a package")
    sums = checksums["write"]([file], tmp_path / "SHA256SUMS")
    signature = checksums["sign"](sums, tmp_path / "key")

    def told(key: str) -> int:
        (tmp_path / "signers").write_text(f"release {(tmp_path / f'{key}.pub').read_text()}")
        words = [
            "-Y",
            "verify",
            "-f",
            "signers",
            "-I",
            "release",
            "-n",
            "sapwood-release",
            "-s",
            signature.name,
        ]
        return subprocess.run(["ssh-keygen", *words], cwd=tmp_path, input=sums.read_bytes()).returncode

    def whole() -> int:
        return subprocess.run(["sha256sum", "--check", "--quiet", sums.name], cwd=tmp_path).returncode

    assert (told("key"), whole()) == (0, 0)
    assert told("other") != 0
    file.write_bytes(b"another package")
    assert whole() != 0
    sums.write_text(sums.read_text().replace("sapwood", "sapw00d"))
    assert told("key") != 0


def test_a_commit_without_a_tag_has_a_higher_version_than_the_one_before(
    tmp_path: Path, program: Any
) -> None:
    version_of = program("build")["version_of"]
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v1.2.0"]):
        subprocess.run([*git, *words], check=True)
    tagged = version_of(tmp_path)
    versions = [tagged]
    for _ in range(2):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "more"], check=True)
        versions.append(version_of(tmp_path))
    assert tagged == "1.2.0"
    for lower, higher in pairwise(versions):
        subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher], check=True)


def test_tox_has_an_environment_for_what_takes_long() -> None:
    said = (ROOT / "tox.ini").read_text()
    assert "[testenv:packages]" in said
    for folder in ("release/tests", "website/tests"):
        # Without the file of its own pytest reads pyproject.toml, and stumbles over options of plugins.
        assert f"pytest -c {folder}/pytest.ini {folder}" in said
        assert (ROOT / folder / "pytest.ini").exists()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"][
        "testpaths"
    ] == ["tests"]
