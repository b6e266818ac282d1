"""Names for nodes: commands that name none go where the context says, and nothing of it goes elsewhere."""

import http.server
import json
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli import app as program
from broker.cli import contexts
from broker.cli.errors import CommandError

TOKEN = "a-token-of-ours"
Run = Callable[..., str]


class Asked:
    """A node that writes down which tokens it is shown."""

    def __init__(self) -> None:
        tokens = self.tokens = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                tokens.append(self.headers.get("Authorization", ""))
                self.send_response(503)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n", encoding="utf-8")
    return file


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> str:
        capsys.readouterr()
        program.app([*arguments], standalone_mode=False)
        return capsys.readouterr().out

    return command


def look(run: Run, *arguments: str) -> None:
    with pytest.raises(CommandError):
        run("status", *arguments)


def test_a_command_that_names_no_node_goes_to_the_current_context(running: Any, run: Run) -> None:
    run("context", "add", "hq", running.url)
    assert json.loads(run("status", "--json"))["name"] == "hq"
    running.do(lambda client: client.create("sales"))
    run("send", "queue:sales", "one")
    queues = json.loads(run("queues", "--json"))["queues"]
    assert [(queue["name"], queue["messages"]) for queue in queues] == [("queue:sales", 1)]


def test_a_context_shows_its_token_to_its_own_node_alone(
    asked: Asked, run: Run, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("context", "add", "hq", asked.url, "--token-file", str(token_file))
    look(run)
    assert set(asked.tokens) == {f"Bearer {TOKEN}"}
    for elsewhere in (["--url", asked.url], [asked.url]):
        asked.tokens.clear()
        look(run, *elsewhere)
        assert set(asked.tokens) == {""}
    monkeypatch.setenv("SAPWOOD_URL", asked.url)
    asked.tokens.clear()
    look(run)
    assert set(asked.tokens) == {""}


def test_a_token_of_the_environment_does_not_go_to_a_context_that_has_its_own(
    asked: Asked, run: Run, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_TOKEN", "of-another-node")
    run("context", "add", "hq", asked.url, "--token-file", str(token_file))
    look(run)
    assert set(asked.tokens) == {f"Bearer {TOKEN}"}
    asked.tokens.clear()
    look(run, "--token", "by-hand")
    assert set(asked.tokens) == {"Bearer by-hand"}
    run("context", "add", "hq", asked.url)
    asked.tokens.clear()
    look(run)
    assert set(asked.tokens) == {"Bearer of-another-node"}


def test_one_of_several_is_chosen_for_a_command_or_for_all(
    asked: Asked, running: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("context", "add", "hq", running.url)
    run("context", "add", "york", asked.url)
    assert json.loads(run("context", "list", "--json"))["current"] == "hq"
    look(run, "--context", "york")
    run("context", "use", "york")
    look(run)
    assert len(asked.tokens) >= 2
    monkeypatch.setenv("SAPWOOD_CONTEXT", "hq")
    assert json.loads(run("status", "--json"))["name"] == "hq"
    monkeypatch.delenv("SAPWOOD_CONTEXT")
    run("context", "remove", "york")
    assert "york" not in run("context", "list")
    with pytest.raises(CommandError, match="7600"):
        run("status")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["status", "--context", "leeds"],
            "'leeds' is none of yours \\(hq\\): name one of these, or add it$",
        ),
        (["context", "use", "leeds"], "none of yours"),
        (["context", "remove", "leeds"], "none of yours"),
        (["status", "--context", "hq", "--url", "http://127.0.0.1:9"], "leave its address out"),
        (["status", "--context", "hq", "http://127.0.0.1:9"], "leave its address out"),
        (["context", "add", "x", "ftp://hq"], "looks so"),
        (["context", "add", "x", "https://night:word@hq"], "looks so"),
        (
            ["context", "add", "x", "http://hq", "--token-file", "nothing-there"],
            "nothing-there: no such file",
        ),
    ],
)
def test_mistakes_are_told(run: Run, arguments: list[str], says: str) -> None:
    run("context", "add", "hq", "http://127.0.0.1:9")
    with pytest.raises(CommandError, match=says) as raised:
        run(*arguments)
    assert raised.value.exit_code == 2


def test_an_address_that_nobody_typed_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_URL", "http://127.0.0.1:9")
    with pytest.raises(CommandError, match=r"leave SAPWOOD_URL out$"):
        run("status", "--context", "hq")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"contexts": {"hq": {}}}', '{"contexts": 3}'])
def test_a_file_that_holds_something_else_is_named(run: Run, text: str) -> None:
    place = contexts.file()
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=r"contexts\.json holds no contexts"):
        run("status")


def test_the_file_is_the_user_s_alone_and_holds_no_token(run: Run, token_file: Path) -> None:
    run("context", "add", "hq", "http://127.0.0.1:9", "--token-file", str(token_file))
    place = contexts.file()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert TOKEN not in place.read_text(encoding="utf-8")
    assert [each.name for each in place.parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize("text", ["two\nlines", "ein größeres"])
def test_what_is_no_token_is_told(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=r"expected one line|this is none"):
        run("status", "--url", "http://127.0.0.1:9", "--token-file", str(file))


def test_who_has_no_home_has_no_contexts(tmp_path: Path) -> None:
    nobody = "import os; os.getuid = lambda: 4_000_000_000; "
    words = nobody + "from broker.cli import contexts; print(contexts.read())"
    done = subprocess.run(
        [sys.executable, "-c", words],
        capture_output=True,
        text=True,
        check=True,
        env={},
        cwd=tmp_path,
        timeout=180,
    )
    assert "contexts={}" in done.stdout
