"""The command line from outside: what it imports, what it answers, with which exit code."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest
from nursery import ran as sapwood
from typer import Typer
from typer.main import get_group

from broker.cli import app, program
from broker.cli.sections import SECTIONS
from broker.enrolment.tokens import Invitation, write_token
from config.load import load

HEAVY = (
    "aiohttp",
    "sqlite3",
    "msgspec",
    "asyncio",
    "rich",
    "yaml",
    "ssl",
    "tenacity",
    "uvloop",
    "zstandard",
    "lark",
)
COMMANDS = [
    line.split()
    for line in (
        "",
        "demo",
        "node",
        "node run",
        "node check",
        "node leave",
        "node forget",
        "node recover",
        "config",
        "config fleet",
        "config convert",
        "config schema",
        "config reference",
        "config acl",
        "status",
        "top",
        "send",
        "receive",
        "simulate",
        "trace",
        "audit",
        "idl",
        "idl check",
        "idl diff",
        "idl docs",
        "idl format",
        "idl python",
        "queues",
        "queue",
        "queue delete",
        "queue delete-message",
        "sessions",
        "consumers",
        "routes",
        "follow",
        "dead",
        "dead list",
        "dead return",
        "dead delete",
        "subscription",
        "subscription end",
        "completion",
    )
]


DEFINITIONS = Path(__file__).parents[2] / "examples" / "interfaces"
RETAIL = Path(__file__).parents[2] / "examples" / "retail"
TOKEN = write_token(
    Invitation("acme", "york", "leaf", "hq", ("wss://127.0.0.1:1/link",), bytes(32), bytes(8), bytes(16), 9)
)
GROUPS = ([], ["node"], ["config"], ["queue"], ["dead"], ["idl"], ["subscription"])


EACH_HELP = """
import gc, json, os, sys
import pydantic.fields, pydantic.type_adapter
from typer.main import get_command
from broker.cli.app import app
command = get_command(app)
gc.freeze()
for number, words in enumerate(json.load(sys.stdin)):
    if not os.fork():
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{number}.{name}", os.O_CREAT | os.O_WRONLY), stream)
        try: command([*words, "--help"], prog_name="sapwood")
        finally: print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
"""Runs each command as a fork that has loaded nothing but the program, and what Typer loads for any help, and
laid out its commands: that takes longer than all else."""


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Each command's help, and on its stderr the packages that were imported for it."""
    folder = tmp_path_factory.mktemp("helps")
    ran = subprocess.run(
        [sys.executable, "-P", "-c", EACH_HELP],
        input=json.dumps(COMMANDS),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return {
        " ".join(words): subprocess.CompletedProcess(
            words, int(code), *((folder / f"{number}.{name}").read_text() for name in ("out", "err"))
        )
        for number, (words, code) in enumerate(zip(COMMANDS, ran.stdout.split(), strict=True))
    }


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_imports_nothing_that_it_does_not_need(
    command: list[str], helps: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    ran = helps[" ".join(command)]
    assert ran.returncode == 0
    assert "usage: sapwood" in ran.stdout.lower()
    imported = set(ran.stderr.split())
    assert "typer" in imported
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in GROUPS], ids=" ".join)
def test_every_command_can_speak_json(
    command: list[str], helps: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    assert "--json" in helps[" ".join(command)].stdout


def test_the_version_is_printed() -> None:
    from importlib.metadata import version

    assert sapwood("--version").stdout.split() == ["sapwood", version("sapwood-node")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("status", "--nonsense"),
        ("send",),
        ("send", "nowhere", "x"),
        ("send", "queue:a@b@c", "x"),
        ("send", "topic:a/#", "x"),
        ("receive", "queue:x", "--durable", "d"),
        ("receive", "queue:x", "--count", "0"),
        ("status", "ftp://host"),
        ("node", "forget", "no such name"),
        ("queue", "move", "sales"),
        ("queue", "move", "sales", "stock"),
        ("send", "queue:x", "payload", "--file", "missing"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_exit_code_two_and_one_text(arguments: tuple[str, ...], tmp_path: Path) -> None:
    ran = sapwood(*arguments, folder=tmp_path)
    assert ran.returncode == 2
    assert (ran.stderr or ran.stdout).strip()
    assert "Traceback" not in ran.stderr


NAMED = {
    "demo logs": "--logs taken/logs",
    "node run file": "missing",
    "node check file": "missing",
    "node recover file": "missing",
    "config fleet table": "missing.csv",
    "config fleet out": f"{RETAIL / 'stores.csv'} --out taken/out",
    "config convert file": "missing.conf",
    "config acl file": "missing",
    "definitions export file": "taken/out",
    "definitions import file": "missing",
    "status token_file": "http://127.0.0.1:1 --token-file missing",
    "status ca": "https://127.0.0.1:1 --ca missing",
    "status certificate": "https://127.0.0.1:1 --certificate missing",
    "status key": "https://127.0.0.1:1 --key missing",
    "send file": "queue:x --file missing",
    "receive ca": "queue:x --url https://127.0.0.1:1 --ca missing",
    "receive password_file": "queue:x --url https://127.0.0.1:1 --account till --password-file missing",
    "receive certificate": "queue:x --url https://127.0.0.1:1 --certificate missing",
    "receive key": "queue:x --url https://127.0.0.1:1 --key missing",
    "simulate workload": "stores=1 --out out --workload missing",
    "simulate out": "stores=1 --out taken/out",
    "simulate replay": "--replay missing",
    "join folder": f"{TOKEN} --dir taken/folder",
    "idl check paths": "missing.idl",
    "idl format paths": "missing",
    "idl python path": "missing --out new",
    "idl python out": f"{DEFINITIONS} --out taken",
    "idl ocaml path": "missing --out new",
    "idl ocaml out": f"{DEFINITIONS} --out taken",
    "idl docs path": "missing --out new",
    "idl docs out": f"{DEFINITIONS} --out taken",
    "idl docs since": f"{DEFINITIONS} --out new --since missing",
    "idl diff old": "missing missing",
    "idl diff new": f"{DEFINITIONS} missing.idl",
}
"""Whatever names a file or a folder: options of `asks_a_node` and `talks_to_a_node` once each."""
FURTHER = {
    "config convert": "folder",
    "simulate": "--soak 1 --trial wether",
    "simulate DEPLOYMENT": "missing.csv --out out",
    "simulate --replay": "--replay taken",
    "simulate --out": "--soak 1 --out taken/out",
    "audit LOGS": f"missing --deployment {RETAIL / 'stores.csv'} --out out",
    "join TOKEN": "sapwood1-x",
}


def exit_code(words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of a command, run in this process.

    `node run` holds SIGHUP back until the node runs, and a Mosquitto of another test would inherit that.
    """
    monkeypatch.setattr(sys, "argv", ["sapwood", *words.split()])
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with pytest.raises(SystemExit) as ended:
            program.main()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("command", [*NAMED, *FURTHER])
def test_what_the_command_line_names_and_is_not_there_is_wrong_use(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken").write_text("a file")
    given = NAMED.get(command) or FURTHER[command]
    name = command.rpartition(" ")[0] or command
    assert exit_code(f"{name} {given}", monkeypatch) == 2
    said = capsys.readouterr()
    assert any(
        word in said.out + said.err for word in ("missing", "taken", "folder", "wether", "token", "key")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "taken"]


def test_each_file_and_folder_that_a_command_names_is_looked_at_above() -> None:
    """Those of all commands, found in the program itself."""
    named = set(_paths(app.app, ()))
    once = {
        f"{command} {option}" for command in ("status", "receive") for option in ("ca", "certificate", "key")
    }
    once |= {"status token_file", "receive password_file"}
    shared = {"ca", "certificate", "key", "token_file", "password_file"}
    others = {name for name in named if name.rpartition(" ")[2] not in shared}
    assert once <= named
    assert others | once == set(NAMED)


def _paths(program: Typer, words: tuple[str, ...]) -> Iterator[str]:
    for command in program.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        for parameter in signature(command.callback).parameters.values():
            if "pathlib" in str(parameter.annotation):
                yield " ".join((*words, name, parameter.name))
    for group in program.registered_groups:
        assert group.typer_instance is not None
        yield from _paths(group.typer_instance, (*words, str(group.name)))


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "127.0.0.1:1"),
        ("node", "leave", "--url", "127.0.0.1:1"),
        ("node", "forget", "x", "--url", "127.0.0.1:1"),
    ],
    ids=" ".join,
)
def test_a_node_that_does_not_answer_is_exit_code_one(arguments: tuple[str, ...]) -> None:
    ran = sapwood(*arguments)
    assert ran.returncode == 1
    assert "127.0.0.1:1 does not answer" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not ran.stdout
    said = json.loads(sapwood(*arguments, "--json").stdout)
    assert said["exit_code"] == 1
    assert "127.0.0.1:1 does not answer" in said["error"]


def test_a_defect_is_told_as_one_and_can_be_looked_into(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def broken(prog_name: str) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(app, "app", broken)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 1
    assert "unexpected KeyError: 'oops'" in capsys.readouterr().err
    monkeypatch.setenv("SAPWOOD_TRACEBACK", "1")
    with pytest.raises(KeyError):
        program.main()


def test_every_command_stands_in_one_section_of_the_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(
        get_group(app.app).commands
    )


def test_the_reference_is_printed(tmp_path: Path) -> None:
    for option, suffix in (("--xml", "xml"), ("--json", "yaml")):
        said = sapwood("config", "reference", option).stdout
        file = tmp_path / f"reference.{suffix}"
        file.write_text(json.loads(said)["reference"] if option == "--json" else said)
        assert load(file).name == "region-uk"


def test_the_schemas_are_printed() -> None:
    assert json.loads(sapwood("config", "schema").stdout)["$schema"]
    assert sapwood("config", "schema", "--xsd").stdout.lstrip().startswith("<?xml")
    assert "schema" in json.loads(sapwood("config", "schema", "--xsd", "--json").stdout)["xsd"]


def test_a_fleet_is_written_and_counted(tmp_path: Path) -> None:
    table = RETAIL / "stores.csv"
    ran = sapwood("config", "fleet", str(table), "--out", str(tmp_path / "out"), "--json")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert len(answer["sites"]) == 9
    assert all(Path(file).exists() for file in answer["files"])


def test_a_wrong_table_is_refused_with_its_place_and_writes_nothing(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("name,parent,role,address\nhq,,root,hq.example\nstore,nowhere,leaf,\n")
    ran = sapwood("config", "fleet", str(table), "--out", str(tmp_path / "out"))
    assert ran.returncode == 2
    assert "sites.csv:3" in ran.stderr
    assert not (tmp_path / "out").exists()
