"""Every file that a person names is opened at once, and read no further than such a file may be long."""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridges.site_brokers.mosquitto.database import DatabaseError, subscriptions
from bridges.tls import TlsError, TlsSettings, client_context, server_context
from broker.cli.configuration import CommandLineValues, print_converted
from broker.cli.errors import CommandError
from config.credentials import read_table, resolve_secret
from config.errors import ConfigurationError
from config.files import open_plain, read_plain
from config.fleet import read_sites
from config.load import load
from simulation.workload import read_workload

pytestmark = pytest.mark.timeout(60)
"""Where a pipe is waited for, it is for ever."""

WANTED = CommandLineValues("", "", "", "")
READERS: dict[str, Callable[[Path], Any]] = {
    "site.xml": load,
    "site.yaml": load,
    "sites.csv": read_sites,
    "secret": lambda path: resolve_secret(None, path, what="secret"),
    "children": read_table,
    "workload.yaml": read_workload,
    "other.conf": lambda path: print_converted(path, WANTED, xml=False, as_json=False),
    "ca.pem": lambda path: client_context(TlsSettings(ca=path)),
    "certificate.pem": lambda path: server_context(path, None),
    "key.pem": lambda path: server_context(Path(__file__), path),
    "mosquitto.db": lambda path: subscriptions(path, 10),
}
"""Each by a name that it takes. Only plain files are read by all of them."""

ENDS = ConfigurationError | CommandError | TlsError | DatabaseError


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (pipe, "it is a pipe: expected a plain file"),
        (endless, "it is a device: expected a plain file"),
        (Path.mkdir, "it is a folder: expected a plain file"),
    ],
)
def test_what_is_no_plain_file_is_refused_at_once(
    tmp_path: Path, name: str, make: Callable[[Path], None], text: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(ENDS.__args__, match=text):  # type: ignore[attr-defined]
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", [name for name in READERS if not name.endswith(("pem", "db"))])
def test_of_a_huge_file_no_more_is_read_than_it_may_have(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as opened:
        opened.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ConfigurationError, CommandError), match=r"at most|more than"):
        READERS[name](tmp_path / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024


def test_a_plain_file_is_read_to_one_byte_beyond_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    (tmp_path / "b").symlink_to(file)
    assert read_plain(file, 5) == b"12345"
    assert read_plain(tmp_path / "b", 3) == b"1234"


def test_what_is_refused_is_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    before = len(os.listdir("/proc/self/fd"))
    for path in (tmp_path, tmp_path / "a"):
        with pytest.raises(OSError, match="expected a plain file"):
            open_plain(path)
    assert len(os.listdir("/proc/self/fd")) == before
