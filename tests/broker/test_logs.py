"""The log as lines: text, JSON, and those of real nodes as processes."""

import asyncio
import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.cli.demo.plan import free_ports
from broker.logs import FIELDS, JsonFormatter, TextFormatter, set_up
from config.model import Log, Site
from sapwood import SendRejected, connect

SECRET_SESSION = "a-session-that-is-secret"


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("sapwood.link", logging.WARNING, __file__, 1, message, arguments, None)
    made.created = 1_795_251_305.25
    made.__dict__.update(fields)
    return made


def test_a_line_of_json() -> None:
    line = json.loads(JsonFormatter().format(record("! link %s", "york", link="york", count=3, other="x")))
    assert line == {
        "at": "2026-11-21T08:55:05.250Z",
        "level": "warning",
        "logger": "sapwood.link",
        "message": "! link york",
        "link": "york",
        "count": 3,
    }


def test_texts_of_others_end_no_line_and_steer_no_terminal() -> None:
    made = record("! refused: %s", "x\n2026-11-23 W sapwood.link all is well\x1b[2J\r\u202e\x85 déjà")
    try:
        raise ValueError("two\n2026-11-23 W sapwood.link lines\x1b[2J")
    except ValueError:
        made.exc_info = sys.exc_info()
    first, *others = TextFormatter().format(made).splitlines()
    assert first.endswith(r"! refused: x\n2026-11-23 W sapwood.link all is well\x1b[2J\r\u202e\x85 déjà")
    assert len(others) > 2
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_an_error_stays_one_line() -> None:
    made = record("! failed")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        made.exc_info = sys.exc_info()
    text = JsonFormatter().format(made)
    assert "\n" not in text
    assert "two\nlines" in json.loads(text)["error"]


def test_what_is_no_json_is_text() -> None:
    assert json.loads(JsonFormatter().format(record("x", reason=Path("/a"))))["reason"] == "/a"


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_tokens_in_paths_are_masked(formatter: logging.Formatter) -> None:
    text = formatter.format(
        record("bad request 'GET /login/%s HTTP/1.1' and /LOGIN/%s?x", "token-1", "token-2")
    )
    assert "token-" not in text
    assert "/login/… HTTP/1.1" in text


def test_fields_do_not_collide_with_those_of_logging() -> None:
    assert set(FIELDS).isdisjoint(record("x").__dict__)


@pytest.fixture
def root_log() -> Iterator[logging.Logger]:
    """The log of this process, put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("sapwood")
    before = root.handlers[:], root.level, ours.level
    yield root
    root.handlers[:], root.level, ours.level = before


@pytest.mark.parametrize(("form", "is_json"), [("text", False), ("json", True)])
def test_a_site_says_what_is_written_and_how(
    root_log: logging.Logger, monkeypatch: pytest.MonkeyPatch, form: Any, is_json: bool
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    set_up(Site(name="hq", log=Log(format=form, level="warning")))
    logging.getLogger("sapwood.link").info("+ quiet")
    logging.getLogger("sapwood.link").warning("! loud")
    (line,) = written.getvalue().splitlines()
    assert line.startswith("{") is is_json
    assert "! loud" in line


def test_a_log_that_nobody_reads_holds_nobody_and_says_what_it_lacks(
    root_log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    with open(reader, "rb", closefd=True) as unread, open(writer, "w", buffering=1) as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        set_up(Site(name="hq"))

        def write() -> None:
            for number in range(60):
                logging.getLogger("sapwood.link").warning("! line %d %s", number, "x" * 3000)

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        writing.join(60)
        held = writing.is_alive()
        told = os.read(unread.fileno(), 1 << 20).decode()
        while writing.is_alive():
            os.read(unread.fileno(), 1 << 20)
        assert not held
        assert 20_000 < len(told) < 100_000
        logging.getLogger("sapwood.link").warning("! the last")
        *_, notice, last = os.read(unread.fileno(), 1 << 20).decode().splitlines()
    missing = 60 - sum(line.endswith("x" * 3000) for line in told.splitlines())
    assert notice.endswith(f"! nobody read this log: {missing} lines of it were left out")
    assert last.endswith("! the last")


@asynccontextmanager
async def running(
    folder: Path, name: str, port: int, **settings: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A real node as a process with JSON logs in `folder/NAME.log`."""
    said = {"name": name, "data": f"data-{name}", "listener": {"port": port}, **settings}
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"broker": said}), encoding="utf-8")
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "broker.cli", "node", "run", str(file), "--json", stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def until_said(file: Path, part: str) -> None:
    async with asyncio.timeout(60):
        while part not in file.read_text("utf-8"):
            await asyncio.sleep(0.02)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


async def test_real_nodes_say_what_an_operator_needs(tmp_path: Path) -> None:
    hq_port, store_port = free_ports(2)
    limits = {"queue_quota": 3}
    way = [{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{hq_port}/link"}]
    quick = {"backoff_initial": "50ms", "backoff_max": "100ms"}
    hq_log, store_log = tmp_path / "hq.log", tmp_path / "store.log"
    async with running(tmp_path, "hq", hq_port, limits=limits):
        await until_said(hq_log, f"= dashboard: http://127.0.0.1:{hq_port}/dashboard")
        await until_said(hq_log, "listens on port")
        async with running(tmp_path, "store", store_port, tree_connectors=way, link=quick):
            await until_said(hq_log, "+ link store (child) is up")
            await until_said(store_log, "+ link hq (parent) is up")
            async with connect(f"http://127.0.0.1:{hq_port}", session=SECRET_SESSION) as client:
                await client.create("sales")
                with pytest.raises(SendRejected):
                    await client.send_many("queue:sales", [b"x"] * 5)
                await client.send("queue:orders", b"x", expires_in=1)
            reader, writer = await asyncio.open_connection("127.0.0.1", hq_port)
            writer.write(b"GET /login/" + SECRET_SESSION.encode() + b"\x00 HTTP/1.1\r\n\r\n")
            await reader.read(100)
            writer.close()
            await until_said(hq_log, "messages of applications were not taken")
            await until_said(hq_log, "! 1 dead letter: EXPIRED")
        await until_said(hq_log, "- link store (child) is down")
    said = lines_of(hq_log)
    for line in said:
        at = datetime.fromisoformat(line["at"])
        assert at.utcoffset() == timedelta(0)
        assert line["message"][:2] in {"+ ", "- ", "= ", "! "} or line["logger"] == "sapwood.http.requests", (
            line
        )
    by_start = {line["message"].split(":")[0]: line for line in said}
    up, down = (
        by_start["+ link store (child) is up"],
        next(x for x in said if x["message"].startswith("- link")),
    )
    assert (up["link"], up["relation"], up["state"]) == ("store", "child", "up")
    assert (down["link"], down["state"]) == ("store", "down")
    assert "the node stops" in down["reason"]
    assert next(line for line in said if line["message"] == "+ queue sales is created")["queue"] == "sales"
    refused = next(line for line in said if line.get("reason") == "QUEUE_FULL")
    assert refused["count"] == 2
    dead = next(line for line in said if line["logger"] == "sapwood.dead")
    assert (dead["reason"], dead["count"], dead["destination"]) == ("EXPIRED", 1, "queue:orders")
    assert len(bytes.fromhex(dead["bundle"])) >= 16
    assert SECRET_SESSION not in hq_log.read_text("utf-8") + store_log.read_text("utf-8")
    assert by_start["= node hq has stopped"]
