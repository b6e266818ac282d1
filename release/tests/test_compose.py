"""The compose file, started by podman-compose: HQ and a store, whose messages outlive the containers.

The containers have a network of their own, so that the published port meets nobody else's.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from image import PARTS

NEEDED = {
    "podman": shutil.which("podman"),
    "runc": shutil.which("runc"),
    "iptables": shutil.which("iptables"),
    "netavark": Path("/usr/lib/podman/netavark").exists(),
    "aardvark-dns": Path("/usr/lib/podman/aardvark-dns").exists(),
}
pytestmark = pytest.mark.skipif(
    not all(NEEDED.values()),
    reason="the compose file is not started: of Debian are missing "
    + ", ".join(name for name, there in NEEDED.items() if not there),
)
SITES = ("hq", "york")
USER = 7600


class Composed:
    """The compose file beside secrets of its own. `images`: the folder that buildah has filled."""

    def __init__(self, images: Path, folder: Path) -> None:
        for name in ("compose.yaml", *(f"{site}.yaml" for site in SITES)):
            shutil.copy(PARTS / name, folder)
        for name in ("link-secret", "session-secret"):
            path = folder / name
            path.write_text(secrets.token_hex(32))
            os.chown(path, USER, USER)
            path.chmod(0o400)
        self._folder = folder
        self._environment = os.environ | settings(images, folder)
        script = "ip link set lo up; echo; exec sleep infinity"
        self._network = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
        assert self._network.stdout is not None
        assert self._network.stdout.readline() == b"\n"

    def close(self) -> None:
        try:
            self.compose("down", "--volumes")
        finally:
            self._network.kill()
            self._network.communicate()

    def compose(self, *words: str) -> str:
        return self._run(sys.executable, "-m", "podman_compose", "--project-name", "sapwood", *words)

    def sapwood(self, site: str, *words: str) -> str:
        """Of the program in a container, as an application there."""
        script = 'SAPWOOD_SESSION_SECRET="$(cat /run/secrets/session-secret)" exec sapwood "$@"'
        return self._run("podman", "exec", self._container(site), "sh", "-c", script, "sapwood", *words)

    def inspected(self, site: str, what: str) -> str:
        return self._run("podman", "inspect", "--format", what, self._container(site)).strip()

    def healthy(self, site: str) -> bool:
        return self._tried("podman", "healthcheck", "run", self._container(site)).returncode == 0

    def published(self) -> bool:
        """Does HQ answer at the port of this machine?"""
        script = "import urllib.request as u; u.urlopen('http://127.0.0.1:7600/readyz', timeout=5)"
        return self._tried(sys.executable, "-c", script).returncode == 0

    def logs(self) -> str:
        each = (self._tried("podman", "logs", self._container(site)) for site in SITES)
        return "\n".join(f"{done.stdout}{done.stderr}" for done in each)

    def until(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + 120
        while not happened():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.5)

    def _container(self, site: str) -> str:
        return f"sapwood_{site}_1"

    def _run(self, *words: str) -> str:
        done = self._tried(*words)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Through files: the server of names, which the first container starts, would keep a pipe open."""
        inside = ["nsenter", f"--net=/proc/{self._network.pid}/ns/net", "--", *words]
        with TemporaryFile("w+") as out, TemporaryFile("w+") as wrong:
            done = subprocess.run(
                inside,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=wrong,
                timeout=300,
            )
            for file in (out, wrong):
                file.seek(0)
            return subprocess.CompletedProcess(words, done.returncode, out.read(), wrong.read())


def settings(images: Path, folder: Path) -> dict[str, str]:
    """Variables by which podman keeps all that it has below these folders, and needs no systemd.

    It raises the limits of a container beyond those of its caller, which not every root may: these are lower.
    Debian's crun refuses a machine whose cgroups are of both versions, and runc does not.
    """
    own = folder / "podman"
    own.mkdir()
    (storage := own / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{images}/storage"\nrunroot = "{images}/run"\n'
    )
    (containers := own / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]\n'
        f'[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'tmp_dir = "{own}/tmp"\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{own}/networks"\n'
    )
    return {
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_CONF": str(containers),
        "DISABLE_HC_SYSTEMD": "true",
    }


@pytest.fixture
def composed(image: Path, tmp_path: Path) -> Iterator[Composed]:
    made = Composed(image, tmp_path)
    try:
        yield made
    finally:
        made.close()


def linked(composed: Composed) -> bool:
    (link,) = json.loads(composed.sapwood("york", "links", "--json"))["links"]
    return bool(link["state"] == "running")


def test_two_nodes_find_each_other_and_their_messages_outlive_the_containers(composed: Composed) -> None:
    composed.compose("up", "--detach")
    composed.until(lambda: composed.published() and all(map(composed.healthy, SITES)))
    composed.until(lambda: linked(composed))
    composed.sapwood("hq", "send", "queue:york/prices", "46 pence")
    assert composed.sapwood("york", "receive", "queue:york/prices").strip() == "46 pence"
    composed.sapwood("york", "send", "queue:york/stock", "12 left")
    # As both are stopped: each ends well within its time, and the containers go.
    composed.compose("stop")
    assert [composed.inspected(site, "{{.State.ExitCode}}") for site in SITES] == ["0", "0"]
    composed.compose("down")
    composed.compose("up", "--detach")
    composed.until(lambda: all(map(composed.healthy, SITES)) and linked(composed))
    assert composed.sapwood("hq", "receive", "queue:york/stock").strip() == "12 left"
