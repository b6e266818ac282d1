"""`sapwood node check`: every kind of finding, each from a site that has it, and nothing changed."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from bind_server import KEY, KEY_NAME, OTHER_KEY, ZONE, BindServer
from brokered_harness import broker_at, parent_at
from mosquitto_server import MosquittoServer

from bridges import certificates
from bridges.dns import multicast
from bridges.dns.records import NamedParent
from broker.cli import check_credentials, check_neighbours
from broker.cli.check import SiteFinding, _taken, check_file, examine
from broker.cli.demo.plan import free_ports
from broker.cli.recover import recover_file
from broker.store import Store
from config.model import ClientTls, Listener, Site
from sapwood.protocol.errors import StoreError


def site(folder: Path, extra: str = "", port: int | None = None) -> Path:
    """A root's file in `folder`; `extra` is further YAML, indented as the other keys."""
    file = folder / "hq.yaml"
    port = free_ports(1)[0] if port is None else port
    file.write_text(f"broker:\n  name: hq\n  data: data\n  listener: {{port: {port}}}\n{extra}")
    return file


def found(file: Path, subject: str) -> list[SiteFinding]:
    findings, _ = examine(file)
    return [finding for finding in findings if finding.subject == subject]


def state(file: Path, subject: str) -> str:
    (one,) = found(file, subject)
    return one.state


def test_a_sound_site_is_well_and_stays_untouched(tmp_path: Path) -> None:
    file = site(tmp_path)
    findings, exit_code = examine(file)
    assert exit_code == 0
    assert {finding.state for finding in findings} <= {"ok", "warning"}
    assert [path.name for path in tmp_path.iterdir()] == ["hq.yaml"]


def test_a_link_broker_is_logged_in_to_and_one_that_is_away_is_a_warning(
    tmp_path: Path, mosquitto: MosquittoServer
) -> None:
    mosquitto.start()
    there, away = f"mqtt://127.0.0.1:{mosquitto.port}", f"amqp://127.0.0.1:{free_ports(1)[0]}"
    file = site(tmp_path)
    listener = (
        f"listener: {{port: {free_ports(1)[0]}, link_brokers: [{{uri: '{there}'}}, {{uri: '{away}'}}]}}"
    )
    file.write_text(f"broker:\n  name: hq\n  data: data\n  {listener}\n")
    findings, exit_code = examine(file)
    assert exit_code == 0
    brokers = {finding.subject: finding.text for finding in findings if "link broker" in finding.subject}
    assert brokers[f"link broker {there}"] == "the node may listen there"
    assert "cannot be reached" in brokers[f"link broker {away}"]
    assert state(file, f"link broker {away}") == "warning"


async def test_a_second_parent_at_a_link_broker_is_refused_by_name(
    tmp_path: Path, mosquitto: MosquittoServer
) -> None:
    mosquitto.start()
    uri = f"mqtt://127.0.0.1:{mosquitto.port}"
    async with parent_at(broker_at(mosquitto, "sapwood"), "north"):
        checked = await asyncio.to_thread(examine, at_link_broker(tmp_path, "hq", uri))
        itself = await asyncio.to_thread(examine, at_link_broker(tmp_path, "north", uri))
    (second,) = [each for each in checked[0] if each.subject == f"link broker {uri}"]
    assert (second.state, checked[1]) == ("failed", 1)
    assert "node 'north' takes the children of this tree" in second.text
    (own,) = [each for each in itself[0] if each.subject == f"link broker {uri}"]
    assert (own.state, own.text) == ("ok", "the node may listen there"), "it runs already"


def at_link_broker(folder: Path, name: str, uri: str) -> Path:
    file = folder / f"{name}.yaml"
    listener = f"listener: {{port: {free_ports(1)[0]}, link_brokers: [{{uri: '{uri}'}}]}}"
    file.write_text(f"broker:\n  name: {name}\n  data: {name}\n  {listener}\n")
    return file


def test_every_mistake_of_the_file_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "hq.yaml"
    file.write_text("broker:\n  name: local\n  lisener: {port: 1}\n  advisories: {linger: soon}\n")
    findings, exit_code = examine(file)
    assert exit_code == 2
    assert [
        finding.text.startswith(f"{file}:{line}:") for finding, line in zip(findings, (2, 3, 4), strict=True)
    ]


def test_open_permits_are_a_warning_and_closed_ones_none(tmp_path: Path) -> None:
    (one,) = found(site(tmp_path, "  permits: open\n"), "permits")
    assert (one.state, "permits are open" in one.text) == ("warning", True)
    assert found(site(tmp_path, '  permits: {consume: ["prices/#"]}\n'), "permits") == []
    assert found(site(tmp_path), "permits") == []


def test_a_setting_that_permits_had_once_is_refused_with_its_successor(tmp_path: Path) -> None:
    findings, exit_code = examine(site(tmp_path, "  permits: {enforce: false}\n"))
    assert exit_code == 2
    assert any("enforce" in each.text and "the default is open" in each.text for each in findings)


def test_a_data_folder_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    file = site(tmp_path)
    assert state(file, "data folder") == "failed"
    assert examine(file)[1] == 1


def test_a_data_folder_that_may_not_be_looked_into_is_a_finding_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may look everywhere, so the system's answer to others is put in place."""
    file, closed, stat = site(tmp_path), str(tmp_path / "data"), os.stat

    def refuse(path: Any, *given: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *given, **options)

    Path(closed).mkdir()
    monkeypatch.setattr(os, "stat", refuse)
    (finding,) = found(file, "store")
    assert (finding.state, "let user id" in finding.text) == ("failed", True)
    with pytest.raises(StoreError, match=r"let user id \d+ write there"):
        recover_file(file, force=False, as_json=False)


def test_an_advisory_log_without_a_place_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a folder")
    assert state(site(tmp_path, "  advisory_log: {directory: log/advisories}\n"), "advisory log") == "warning"
    assert state(site(tmp_path, "  advisory_log: {directory: logs}\n"), "advisory log") == "ok"
    assert not found(site(tmp_path, "  advisory_log: {enabled: false}\n"), "advisory log")


def test_a_data_folder_that_cannot_be_written_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the system's answer is given here."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    (finding,) = found(site(tmp_path), "data folder")
    assert finding.state == "failed"
    assert "chown it" in finding.text


def test_too_little_disk_fails_and_less_than_the_spool_warns(tmp_path: Path) -> None:
    assert state(site(tmp_path, "  limits: {disk_reserve: 4000TB}\n"), "disk") == "failed"
    assert state(site(tmp_path, "  limits: {spool: {max_bytes: 4000TB}}\n"), "disk") == "warning"


def test_a_sound_store_is_looked_at_and_not_changed(tmp_path: Path) -> None:
    file = site(tmp_path)
    Store.open(tmp_path / "data", tree="sapwood", node="hq").close()
    before = (tmp_path / "data" / "node.db").read_bytes()
    (finding,) = found(file, "store")
    assert (finding.state, finding.text.endswith("started 1 time")) == ("ok", True)
    assert (tmp_path / "data" / "node.db").read_bytes() == before


def test_a_store_in_use_is_left_alone(tmp_path: Path) -> None:
    file = site(tmp_path)
    store = Store.open(tmp_path / "data", tree="sapwood", node="hq")
    try:
        (finding,) = found(file, "store")
    finally:
        store.close()
    assert f"in use by process {os.getpid()}" in finding.text


def test_a_damaged_store_fails_and_says_what_to_do(tmp_path: Path) -> None:
    file = site(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "node.db").write_bytes(b"nonsense" * 1000)
    (finding,) = found(file, "store")
    assert finding.state == "failed"
    assert "node recover" in finding.text


def test_a_foreign_database_and_another_node_s_store_fail(tmp_path: Path) -> None:
    file = site(tmp_path)
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "node.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    assert state(file, "store") == "failed"
    (tmp_path / "data" / "node.db").unlink()
    Store.open(tmp_path / "data", tree="sapwood", node="other").close()
    (finding,) = found(file, "store")
    assert "belongs to node 'other'" in finding.text


def test_a_port_in_use_fails(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        file = site(tmp_path, port=other.getsockname()[1])
        (finding,) = found(file, "port")
    assert finding.state == "failed"
    assert "change listener, port" in finding.text


def test_an_address_of_another_machine_is_not_asked_who_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be shown the node's token."""
    monkeypatch.setattr("broker.cli.http.ask", lambda *_, **__: pytest.fail("it was asked"))
    file = site(tmp_path, "  applications: local\n")
    file.write_text(file.read_text().replace("{port:", "{host: 192.0.2.1, port:"))
    (finding,) = found(file, "port")
    assert (finding.state, "192.0.2.1" in finding.text) == ("failed", True)


def test_root_s_own_node_needs_no_group_to_read_a_secret(tmp_path: Path) -> None:
    file = site(tmp_path, "  http: {token_file: token}\n")
    (tmp_path / "token").write_text("t" * 20)
    (tmp_path / "token").chmod(0o640)
    with suppress(PermissionError):
        os.chown(tmp_path / "token", 4711, 4712)
    assert state(file, "permissions") == "warning"


def test_a_port_that_another_node_of_this_machine_has_is_a_warning(tmp_path: Path, running: Any) -> None:
    """The file may be the one that it is started again with, under its new name."""
    file = site(tmp_path, port=int(running.url.rpartition(":")[2]))
    assert state(file, "port") == "ok"
    file.write_text(file.read_text().replace("name: hq", "name: york"))
    (finding,) = found(file, "port")
    assert (finding.state, "start it again with this file" in finding.text) == ("warning", True)


def test_a_node_that_runs_with_tls_has_its_port(tmp_path: Path, serve: Callable[..., Any]) -> None:
    both = tmp_path / "both.pem"
    trustme.CA().issue_cert("hq.example.com").private_key_and_cert_chain_pem.write_to_path(both)
    with serve(tmp_path / "node", certificate=both, key=both) as running:
        assert state(site(tmp_path, port=int(running.url.rpartition(":")[2])), "port") == "ok"


def states(file: Path) -> list[str]:
    return [each.state for each in found(file, "permissions")]


def test_root_is_told_what_the_node_s_user_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root itself reads all, and another user has no way into `tmp_path`. Whoever else runs this test is the
    node's user, and nothing is found.
    """
    with TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place)
        folder.chmod(0o755)
        (folder / "data").mkdir()
        with suppress(PermissionError):
            os.chown(folder / "data", 4711, 4712)
        file = site(folder, "  http: {token_file: token, session_secret_file: shared}\n")
        for name, mode in (("token", 0o600), ("shared", 0o640)):
            (folder / name).write_text("t" * 20)
            (folder / name).chmod(mode)
        with suppress(PermissionError):
            os.chown(folder / "shared", 0, 4712)
        told = [(each.state, each.text.partition(" ")[0]) for each in found(file, "permissions")]
        mine = os.geteuid()
        assert told == [("warning", str(folder / "shared")) if mine else ("failed", str(folder / "token"))]
        with suppress(PermissionError):
            os.chown(folder / "token", 0, 4713)
        (folder / "token").chmod(0o640)
        (folder / "systemctl").write_text("#!/bin/sh\necho 4713 no-such-group\n")
        (folder / "systemctl").chmod(0o755)
        assert ("failed" in states(file)) == (not mine)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        assert "failed" not in states(file)
        (folder / "token").chmod(0o600)
        (folder / "shared").chmod(0o644)
        (one,) = (each.text for each in found(file, "permissions") if each.state == "warning")
        assert ("chown it to user id 4711 and chmod 600 it" in one) == (not mine)


def test_the_process_that_looks_for_root_has_neither_its_terminal_nor_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's user may take it over."""
    run, said = subprocess.run, tmp_path / "said"
    script = f"echo $$ $(cut -d' ' -f6 /proc/$$/stat) $(readlink /proc/$$/fd/0) $SECRET >{said}"

    def instead(_: list[str], *, user: int, group: int, extra_groups: list[int], **how: Any) -> Any:
        return run(["/bin/sh", "-c", script], **how)

    monkeypatch.setenv("SECRET", "of root")
    monkeypatch.setattr(subprocess, "run", instead)
    check_credentials._unreadable([], tmp_path.stat())
    process, session, *others = said.read_text().split()
    assert (session, others) == (process, ["/dev/null"])


def test_a_secret_that_is_missing_fails_and_one_that_is_open_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site(tmp_path, "  http: {token_env: SAPWOOD_TOKEN}\n")
    assert state(file, "token") == "failed"
    monkeypatch.setenv("SAPWOOD_TOKEN", "t")
    assert state(file, "token") == "ok"
    secret = tmp_path / "token"
    secret.write_text("t")
    secret.chmod(0o644)
    file = site(tmp_path, "  http: {token_file: token}\n")
    assert state(file, "permissions") == "warning"
    secret.chmod(0o600)
    assert found(file, "permissions") == []


def test_tls_files_are_read(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    tls = "  listener: {port: 0, tls: {certificate: CERT, key: both.pem}}\n"
    file = tmp_path / "hq.yaml"
    file.write_text("broker:\n  name: hq\n" + tls.replace("CERT", "both.pem"))
    assert state(file, "TLS of the port") == "ok"
    file.write_text("broker:\n  name: hq\n" + tls.replace("CERT", "missing.pem"))
    assert state(file, "TLS of the port") == "failed"


@pytest.mark.parametrize(
    ("year", "told"), [(2020, "ended on 2020-01-31: renew it"), (2200, "begins on 2200-01-01: is the clock")]
)
def test_a_certificate_that_does_not_hold_now_is_told_before_a_neighbour_refuses_it(
    tmp_path: Path, year: int, told: str
) -> None:
    day = datetime(year, 1, 1, tzinfo=UTC)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ended = authority.issue_cert("localhost", not_before=day, not_after=day + timedelta(days=30))
    ended.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    tls = "tls: {certificate: both.pem, key: both.pem}"
    connector = (
        f"[{{nodetype: leaf, uri: 'wss://127.0.0.1:{free_ports(1)[0]}/link', {tls[:-1]}, ca: ca.pem}}}}]"
    )
    file = tmp_path / "hq.yaml"
    file.write_text(f"broker:\n  name: hq\n  listener: {{port: 0, {tls}}}\n  tree_connectors: {connector}\n")
    for subject in ("TLS of the port", "TLS to the parent"):
        (finding,) = found(file, subject)
        assert (finding.state, told in finding.text) == ("failed", True)
    renewed = "renew: true, uri: 'wss:"
    file.write_text(file.read_text().replace("uri: 'wss:", renewed))
    assert state(file, "TLS to the parent") == "ok"


def test_a_parent_that_cannot_be_reached_is_only_a_warning(tmp_path: Path) -> None:
    connector = "  tree_connectors: [{nodetype: leaf, uri: 'ws://HOST/link'}]\n"
    (closed,) = free_ports(1)
    file = site(tmp_path, connector.replace("HOST", f"127.0.0.1:{closed}"))
    assert (state(file, "parent"), examine(file)[1]) == ("warning", 0)
    assert state(site(tmp_path, connector.replace("HOST", "parent.invalid:7600")), "parent") == "warning"
    with socket.create_server(("127.0.0.1", 0)) as parent:
        port = parent.getsockname()[1]
        assert state(site(tmp_path, connector.replace("HOST", f"127.0.0.1:{port}")), "parent") == "ok"


@pytest.mark.parametrize(
    ("host", "parent", "own"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "[::1]", True),
        ("::1", "127.0.0.1", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "localhost", True),
        ("0.0.0.0", "192.0.2.1", False),
        ("::", "[::1]", True),
    ],
)
def test_no_node_is_its_own_parent(tmp_path: Path, host: str, parent: str, own: bool) -> None:
    """Whoever listens everywhere is its own parent at each address of the machine."""
    (port,) = free_ports(1)
    file = site(
        tmp_path, f"  tree_connectors: [{{nodetype: leaf, uri: 'ws://{parent}:{port}/link'}}]\n", port
    )
    text = file.read_text("utf-8").replace("listener: {port:", f"listener: {{host: '{host}', port:")
    file.write_text(text + "  applications: local\n")
    (one,) = found(file, "parent")
    assert one.state == ("failed" if own else "warning")
    assert (f"{port} is this node's own port: expected that of its parent" in one.text) == own
    assert examine(file)[1] == (1 if own else 0)


def test_a_parent_s_port_is_asked_whether_a_node_is_there_and_whether_it_speaks_tls(
    tmp_path: Path, running: Any
) -> None:
    def said(uri: str) -> str:
        (one,) = found(site(tmp_path, f"  tree_connectors: [{{nodetype: leaf, uri: '{uri}'}}]\n"), "parent")
        return f"{one.state}: {one.text}"

    place = running.url.removeprefix("http://")
    assert said(f"ws://{place}/link") == f"ok: {place} accepts connections"
    assert said(f"wss://{place}/link").startswith(f"warning: {place} does not speak TLS: write ws://")


@pytest.mark.parametrize(
    ("uri", "library", "extra"),
    [
        ("mqtt://127.0.0.1:PORT", "bridges.carriers.mqtt", "mqtt"),
        ("srv://acme.test", "bridges.dns.lookup", "dns"),
    ],
)
def test_a_way_without_its_python_package_fails_whoever_listens_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = uri.replace("PORT", str(other.getsockname()[1]))
        file = site(tmp_path, f"  tree_connectors: [{{nodetype: leaf, uri: '{where}'}}]\n")
        findings, exit_code = examine(file)
    told = [each for each in findings if each.state == "failed"]
    assert [f"sapwood-node[{extra}]" in each.text for each in told] == [True]
    assert exit_code == 1


@pytest.mark.parametrize(("others", "state"), [((), "failed"), (("ws://127.0.0.1:1/link",), "warning")])
def test_of_several_ways_that_dns_names_one_may_lack_its_python_package(
    monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...], state: str
) -> None:
    async def look() -> bool:
        return True

    monkeypatch.setitem(sys.modules, "bridges.carriers.mqtt", None)
    places = [NamedParent(uri) for uri in ("mqtt://127.0.0.1:1", *others)]
    finder: Any = SimpleNamespace(look=look, notes=(), places=places, anybody=False)
    findings = check_neighbours._named("parent", finder, ClientTls())
    assert [each.state for each in findings if "sapwood-node[mqtt]" in each.text] == [state]


def test_a_parent_s_certificate_is_looked_at(tmp_path: Path, serve: Callable[..., Any]) -> None:
    authority = trustme.CA()
    both = tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(both)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with serve(tmp_path / "parent", certificate=both, key=both) as running:
        place = running.url.removeprefix("http://")
        connector = f"{{nodetype: leaf, uri: 'wss://{place}/link'}}"
        (one,) = found(site(tmp_path, f"  tree_connectors: [{connector}]\n"), "parent")
        assert (one.state, "not trusted here" in one.text) == ("warning", True)
        trusting = connector.replace("}", ", tls: {ca: ca.pem}}")
        assert state(site(tmp_path, f"  tree_connectors: [{trusting}]\n"), "parent") == "ok"
        other = connector.replace("127.0.0.1", "localhost").replace("}", ", tls: {ca: ca.pem}}")
        (one,) = found(site(tmp_path, f"  tree_connectors: [{other}]\n"), "parent")
        assert (one.state, "has another host's certificate" in one.text) == ("warning", True)
        plain = connector.replace("wss:", "ws:")
        (one,) = found(site(tmp_path, f"  tree_connectors: [{plain}]\n"), "parent")
        assert (one.state, "does its port speak TLS?" in one.text) == ("warning", True)


def test_an_authority_that_the_node_could_not_use_fails(tmp_path: Path) -> None:
    listener = f"{{port: {free_ports(1)[0]}, public_uri: 'wss://hq.example:7600/link'}}"
    file = tmp_path / "hq.yaml"
    file.write_text(f"broker: {{name: hq, listener: {listener}, enrolment: {{authority: authority}}}}\n")
    assert state(file, "certificate authority") == "ok"
    (tmp_path / "authority").mkdir()
    (tmp_path / "authority" / "authority.pem").write_text("x")
    (one,) = found(file, "certificate authority")
    assert (one.state, "authority.key is gone" in one.text) == ("failed", True)


def test_of_very_many_secrets_of_children_one_that_can_be_guessed_is_told(tmp_path: Path) -> None:
    file = site(tmp_path, "  children_secrets: table\n")
    lines = [f"store-{number} {'x' * 32}" for number in range(20)]
    (tmp_path / "table").write_text("\n".join(lines))
    assert not found(file, "weak secret")
    (tmp_path / "table").write_text("\n".join([*lines, "york york", "bath bath"]))
    (weak,) = found(file, "weak secret")
    assert (weak.state, weak.text.split(":")[0]) == ("warning", "secrets of children")


def test_of_a_mesh_the_secret_and_the_other_nodes_are_looked_at(tmp_path: Path, running: Any) -> None:
    (closed,) = free_ports(1)
    cores = f"{{name: hq-2, uri: '{running.url.replace('http', 'ws')}'}}, {{name: hq-3, uri: 'ws://127.0.0.1:{closed}'}}"
    file = site(tmp_path, f"  mesh: {{secret_file: secret, cores: [{cores}]}}\n")
    assert (state(file, "secret of the mesh"), examine(file)[1]) == ("failed", 1)
    (tmp_path / "secret").write_text("s")
    (tmp_path / "secret").chmod(0o644)
    assert [state(file, subject) for subject in ("secret of the mesh", "permissions")] == ["ok", "warning"]
    (weak,) = found(file, "weak secret")
    assert weak.text.startswith("secret of the mesh: fewer than 16 characters: whoever hears a handshake")
    (tmp_path / "secret").write_text("a-secret-of-many")
    assert not found(file, "weak secret")
    assert [state(file, f"mesh, {name}") for name in ("hq-2", "hq-3")] == ["ok", "warning"]
    (summary,) = found(file, "configuration")
    assert summary.text == "root 'hq' of tree 'sapwood', in a mesh with hq-2, hq-3"


def test_the_table_and_the_json_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = site(tmp_path)
    assert check_file(file, as_json=False) == 0
    text = capsys.readouterr().out
    assert check_file(file, as_json=True) == 0
    assert '"exit_code":0' in capsys.readouterr().out
    assert "root 'hq' of tree 'sapwood'" in text


def test_what_dns_says_of_a_parent_is_shown_with_the_name_for_its_certificate(
    tmp_path: Path, bind: BindServer, domain: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as parent:
        port = parent.getsockname()[1]
        bind.set(domain, "SRV", f"10 5 {port} localhost.", f"20 5 {port} 10.0.0.1.")
        bind.set(domain, "TXT", '"carrier=wss" "tree=sapwood" "node=north"')
        connector = f"{{nodetype: leaf, uri: 'srv://{domain}', name_servers: ['{bind.place}']}}"
        file = site(tmp_path, f"  tree_connectors: [{connector}]\n")
        findings, exit_code = examine(file)
    assert exit_code == 0
    said = [(one.state, one.text) for one in findings if one.subject.startswith("parent")]
    warnings = [text for state, text in said if state == "warning"]
    assert any("no secret proves the parent" in text for text in warnings)
    assert any("never an IP address" in text for text in warnings)
    (way,) = (text for state, text in said if state == "ok" and text.startswith("wss://"))
    assert way == (
        f"wss://localhost:{port}/link (north, priority 10, weight 5; its certificate must name localhost)"
    )
    assert ("ok", f"localhost:{port} accepts connections") in said


@pytest.mark.parametrize("proof", ["", ", tls: {ca: ca.pem}"])
def test_a_parent_of_the_same_network_is_not_said_to_be_in_dns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: str
) -> None:
    monkeypatch.setattr(multicast, "PORT", free_ports(1)[0])
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    lan = "nodetype: leaf, uri: 'srv://local', local_addresses: [127.0.0.1], secret_env: S"
    file = site(tmp_path, f"  tree_connectors: [{{{lan}{proof}}}]\n  link: {{connect_timeout: 1s}}\n")
    said = [one.text for one in found(file, "parent srv://local")]
    assert ["hand it on and read all" in text for text in said] == ([False] if proof else [True, False])
    assert "nobody answers" in said[-1]
    assert not any("in DNS" in text for text in said)


def test_a_domain_without_records_and_a_dns_that_is_away_are_warnings(
    tmp_path: Path, bind: BindServer, domain: str
) -> None:
    for server, said in ((bind.place, "has no SRV record"), (f"127.0.0.1:{free_ports(1)[0]}", "DNS")):
        connector = f"{{nodetype: leaf, uri: 'srv://{domain}', name_servers: ['{server}'], secret_env: S}}"
        file = site(tmp_path, f"  tree_connectors: [{connector}]\n  link: {{connect_timeout: 1s}}\n")
        (finding,) = found(file, f"parent srv://{domain}")
        assert finding.state == "warning"
        assert said in finding.text


def test_the_key_of_a_registration_is_tried_and_nothing_is_changed(
    tmp_path: Path, bind: BindServer, domain: str
) -> None:
    for secret, expected in ((KEY, "ok"), (OTHER_KEY, "warning"), ("no base64!", "warning")):
        (tmp_path / "key").write_text(secret)
        key = f"key_name: {KEY_NAME}, key_file: key"
        registration = f"{{domain: {domain}, zone: {ZONE}, server: '{bind.place}', {key}}}"
        file = tmp_path / "hq.yaml"
        port = free_ports(1)[0]
        listener = f"{{port: {port}, public_uri: 'ws://localhost:{port}'}}"
        file.write_text(
            f"broker:\n  name: hq\n  data: data\n  listener: {listener}\n  registration: {registration}\n"
        )
        assert state(file, "registration") == expected
    assert bind.records(domain, "SRV") == []


def certified(folder: Path, ends_in: float) -> Path:
    """A store's file, whose certificate ends in so many seconds."""
    key, now = certificates.make_key(), time.time() - 1e6
    authority = certificates.Authority(key, certificates.Authority.certify(key, "hq", "acme", now))
    request = certificates.read_request(certificates.make_request(key, "york", "acme"))
    (folder / "ca.pem").write_bytes(authority.certificate)
    (folder / "node.pem").write_bytes(authority.for_child(request, "acme", now, 1e6 + ends_in) + key)
    (folder / "node.pem").chmod(0o600)
    tls = "tls: {ca: ca.pem, certificate: node.pem, key: node.pem}"
    uri = f"wss://127.0.0.1:{free_ports(1)[0]}/link"
    connector = f"  tree_connectors: [{{nodetype: leaf, uri: '{uri}', renew: true, {tls}}}]\n"
    return site(folder, connector)


def test_a_certificate_that_has_ended_is_told_and_cured_by_the_node_itself(tmp_path: Path) -> None:
    (good,) = found(certified(tmp_path, 90_000.0), "own certificate")
    assert (good.state, good.text.startswith("good for 1d")) == ("ok", True)
    (ended,) = found(certified(tmp_path, -7200.0), "own certificate")
    assert (ended.state, ended.text.startswith("ended 2h")) == ("warning", True)
    file = certified(tmp_path, 90_000.0)
    (tmp_path / "node.pem").write_text("nonsense")
    assert state(file, "own certificate") == "failed"


def test_an_authority_that_others_can_read_is_told(tmp_path: Path) -> None:
    file = site(tmp_path, "  enrolment: {authority: authority}\n")
    assert not found(file, "permissions")
    (tmp_path / "authority").mkdir()
    (tmp_path / "authority" / "authority.key").touch(mode=0o644)
    assert state(file, "permissions") == "warning"


def test_of_a_low_port_it_is_said_that_it_is_root_s() -> None:
    found = _taken(
        Site(name="hq", listener=Listener(port=1)), "127.0.0.1:80", PermissionError(13, "Permission denied")
    )
    assert found.text == (
        "127.0.0.1:80 cannot be used: Permission denied; ports below 1024 are root's: change listener, port"
    )
