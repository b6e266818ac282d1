"""The Debian package on machines with systemd and without a network: install, upgrade, roll back."""

import json
import zipfile
from pathlib import Path

from machine import Machine

DATA = Path(__file__).parents[2] / "tests" / "compatibility" / "0.1.0"
SITE = """\
broker:
  name: york
  tree: test
  data: /var/lib/sapwood/york
  tree_connectors: [{nodetype: leaf, uri: "ws://127.0.0.1:7699/link"}]
"""
"""A store whose parent is not there: all that waits in it stays in it."""
SECOND = """\
broker:
  name: leeds
  tree: second
  data: /var/lib/sapwood/leeds
  listener: {port: 7610}
"""
OWN = ("receive", "queue:york/own", "--json")
READY = (
    "/usr/bin/python3",
    "-c",
    "import urllib.request as u; u.urlopen('http://127.0.0.1:7600/readyz', timeout=5)",
)


def install(machine: Machine, package: Path) -> None:
    machine.run("dpkg", "--install", machine.brought(package))


def sapwood(machine: Machine, *words: str) -> str:
    return machine.run("sapwood", *words)


def received(machine: Machine, *words: str) -> list[str]:
    return [json.loads(line)["payload"] for line in sapwood(machine, *words).splitlines()]


def show(machine: Machine, *properties: str) -> list[str]:
    words = [f"--property={each}" for each in properties]
    return machine.run("systemctl", "show", "--value", *words, "sapwood.service").split("\n")


def test_a_node_starts_with_the_default_file_hardened_and_without_a_network(
    machine: Machine, package: Path
) -> None:
    install(machine, package)
    machine.until(*READY)
    assert machine.run("systemctl", "is-enabled", "sapwood.service").strip() == "enabled"
    (process,) = (show(machine, "MainPID")[0],)
    status = dict(
        line.split(":\t", 1)
        for line in machine.run("cat", f"/proc/{process}/status").splitlines()
        if ":\t" in line
    )
    user = machine.run("id", "-u", "sapwood").strip()
    assert set(status["Uid"].split()) == {user} != {"0"}
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    inside = ("nsenter", "--mount", "--target", process, "--setuid", user, "--")
    assert machine.tried(*inside, "touch", "/etc/sapwood/more").returncode != 0
    assert machine.run("stat", "--format=%U %a", "/var/lib/sapwood").strip() == "sapwood 700"
    sapwood(machine, "send", "queue:prices", "46 pence")
    assert received(machine, "receive", "queue:prices", "--json") == ["46 pence"]
    assert "usage: sapwood-channel" in machine.tried("sapwood-channel").stderr


def test_messages_outlive_a_reboot_and_the_removal_of_the_package(machine: Machine, package: Path) -> None:
    install(machine, package)
    machine.until(*READY)
    sapwood(machine, "send", "queue:prices", "46 pence")
    machine.run("apt-get", "purge", "--yes", "sapwood-node")
    assert machine.tried("sapwood", "--version").returncode != 0
    install(machine, package)
    machine.until(*READY)
    assert received(machine, "receive", "queue:prices", "--json") == ["46 pence"]
    machine.stop()
    machine.start()
    machine.until(*READY)


def test_nodes_run_again_after_a_removal_that_is_given_up(machine: Machine, package: Path) -> None:
    install(machine, package)
    machine.until(*READY)
    (machine.root / "var/lib/sapwood/leeds.yaml").write_text(SECOND)
    machine.run("systemctl", "start", "sapwood@leeds.service")
    both = ("systemctl", "is-active", "sapwood.service", "sapwood@leeds.service")
    machine.until(*both)
    scripts = "/var/lib/dpkg/info/sapwood-node"
    # As dpkg does where something else forbids the removal that has begun.
    machine.run(f"{scripts}.prerm", "remove")
    assert machine.tried(*both).returncode != 0
    machine.run(f"{scripts}.postinst", "abort-remove", "in-favour", "other", "1")
    machine.until(*both)
    # One that is carried out leaves nothing behind that a later installation would start.
    machine.run("apt-get", "purge", "--yes", "sapwood-node")
    assert machine.tried("test", "-e", "/run/sapwood-stopped").returncode != 0


def test_an_upgrade_keeps_all_messages_and_so_does_the_way_back(
    machine: Machine, package: Path, package_before: Path
) -> None:
    due = json.loads((DATA / "tree.json").read_text())["due"]["york queue:york/own"]
    zipfile.ZipFile(DATA / "tree.zip").extractall(machine.root / "var/tmp/data")
    (machine.root / "var/tmp/site.yaml").write_text(SITE)
    # The version before, on the data that it left behind.
    install(machine, package_before)
    machine.run("systemctl", "stop", "sapwood.service")
    machine.run("cp", "-a", "/var/tmp/data/york", "/var/lib/sapwood/york")
    machine.run("chown", "-R", "sapwood:", "/var/lib/sapwood")
    machine.run("cp", "/var/tmp/site.yaml", "/etc/sapwood/site.yaml")
    machine.run("systemctl", "start", "sapwood.service")
    machine.until(*READY)
    assert sapwood(machine, "--version").strip() == "sapwood 0.1.0"
    sapwood(machine, "send", "queue:york/own", "of the old version")
    waiting = [*due, "of the old version"]
    # Upgrade: the file that was changed stays, the node runs again, and everything is there.
    machine.run("dpkg", "--install", machine.brought(package))
    machine.until(*READY)
    assert sorted(received(machine, *OWN, "--count", str(len(waiting)))) == sorted(waiting)
    sapwood(machine, "send", "queue:york/own", "of the new version")
    # Back: the old node does not read the new database; with the kept one it goes on where it was.
    machine.run("dpkg", "--force-downgrade", "--install", machine.brought(package_before))
    machine.until("sh", "-c", "journalctl -u sapwood.service | grep -q 'install that version'")
    assert "0.1.0" in machine.run("sapwood-rollback")
    machine.until(*READY)
    assert sorted(received(machine, *OWN, "--count", str(len(waiting)))) == sorted(waiting)
    # And forward again: the newer version's own data had been kept, too.
    kept = machine.run("ls", "/var/lib/sapwood-kept").split()
    assert len(kept) == 2
    assert [name.startswith("replaced-") for name in sorted(kept)] == [False, True]
