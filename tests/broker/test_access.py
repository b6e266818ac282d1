"""A running node reads its file again, and the certificate and key of its port."""

import ssl
from asyncio import open_connection
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from nodes import running_node

from broker.core.errors import SwitchError
from broker.entrance.passwords import hashed
from broker.node import Node
from config.model import Account, AdvisoryLog, Listener, Log, Permits, ServerTls, Site
from config.rules import check

AUTHORITY = trustme.CA()


def renew(folder: Path) -> bytes:
    """Put another certificate in place; in DER."""
    made = AUTHORITY.issue_cert("localhost", "127.0.0.1")
    made.private_key_pem.write_to_path(str(folder / "node.key"))
    made.cert_chain_pems[0].write_to_path(str(folder / "node.pem"))
    return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())


async def shown(node: Node) -> bytes | None:
    """The certificate that a new connection is shown."""
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    _, writer = await open_connection("127.0.0.1", node.port, ssl=trusting)
    line = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    certificate: bytes | None = line.getpeercert(binary_form=True)
    return certificate


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    renew(tmp_path)
    tls = ServerTls(
        certificate=tmp_path / "node.pem", key=tmp_path / "node.key", client_ca=tmp_path / "ca.pem"
    )
    site = check(
        Site(
            name="hq",
            data=tmp_path,
            listener=Listener(port=0, tls=tls),
            advisory_log=AdvisoryLog(enabled=False),
        )
    )
    async with running_node(site, read=lambda: site) as made:
        yield made


async def test_a_certificate_that_was_renewed_counts_once_the_file_is_read_again(
    node: Node, tmp_path: Path
) -> None:
    """The one of the start was shown until it ended, and then no child came in any more."""
    renewed = renew(tmp_path)
    assert await shown(node) != renewed
    assert node.report.access.read_again() == ([], [])
    assert await shown(node) == renewed


async def test_a_damaged_certificate_changes_nothing_and_is_named(node: Node, tmp_path: Path) -> None:
    before = await shown(node)
    (tmp_path / "node.pem").write_text("cut short")
    with pytest.raises(SwitchError, match=r"node\.pem and .*node\.key are not a PEM certificate"):
        node.report.access.read_again()
    assert await shown(node) == before


# --- the file

GUARDED = Site(
    name="hq",
    listener=Listener(host="0.0.0.0", port=0),
    advisory_log=AdvisoryLog(enabled=False),
)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Node, list[Site]]]:
    """A node whose port others reach, and its file: the last of the list."""
    (tmp_path / "till").write_text(hashed("long enough"))
    till = Account(name="till", password_file=tmp_path / "till")
    files = [replace(GUARDED, data=tmp_path, accounts=(till,))]
    async with running_node(files[0], read=lambda: check(files[-1])) as made:
        yield made, files


async def test_a_file_that_is_right_with_a_restart_only_is_told_so(running: tuple[Node, list[Site]]) -> None:
    """The node asked for a proof, or for `applications: open`, where the file said `open`."""
    node, files = running
    files.append(replace(files[0], accounts=(), applications="open"))
    with pytest.raises(SwitchError, match="wait for a start, applications: start it anew"):
        node.report.access.read_again()


async def test_a_file_that_is_wrong_by_itself_is_not_to_be_started_anew(
    running: tuple[Node, list[Site]], tmp_path: Path
) -> None:
    """A node that was started anew with it did not start at all."""
    node, files = running
    gone = Account(name="till", password_file=tmp_path / "gone")
    files.append(replace(files[0], accounts=(gone,), log=Log(level="debug")))
    with pytest.raises(SwitchError, match=r"cannot read .*gone: No such file or directory$"):
        node.report.access.read_again()


async def test_what_children_may_let_wait_counts_at_once_and_is_shown(
    running: tuple[Node, list[Site]],
) -> None:
    """It counted from the next start, and nobody said so."""
    node, files = running
    files.append(replace(files[0], permits=Permits(max_waiting=4096)))
    assert node.report.access.read_again() == ([], [])
    assert "max_waiting: 4KiB" in node.settings
    assert node.core.message_admission.child_share == 4096
