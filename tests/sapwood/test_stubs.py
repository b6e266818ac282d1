"""Generated clients and servers over a real node: types, errors, versions, skeletons, the command line."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nodes import running_node

from broker.node import Node
from config.model import AdvisoryLog, Listener, Site
from sapwood import (
    BadReply,
    Client,
    NobodyServes,
    Rpc,
    ServiceError,
    connect,
    current_task,
    stubs,
    sync,
    task,
)
from sapwood.stub_commands import main
from sapwood.stubs import InternalError

EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces" / "python"
sys.path.insert(0, str(EXAMPLES))
from chain import administration_v1, common, stock_v1, tills_v1  # noqa: E402
from server import Stock  # noqa: E402

ADDRESS = administration_v1.Address(street="High Street 1", town="YO1 York")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(
        Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    ) as made:
        yield made


@pytest.fixture
async def client(node: Node) -> AsyncIterator[Client]:
    async with asyncio.timeout(120), connect(f"http://127.0.0.1:{node.port}", session="caller") as made:
        yield made


@pytest.fixture
async def rpc(client: Client) -> AsyncIterator[Rpc]:
    async with Rpc(client, timeout=60) as made:
        yield made


@pytest.fixture
async def stock(rpc: Rpc) -> AsyncIterator[stock_v1.StockClient]:
    async with rpc.serve("stock", [stock_v1.Stock_server_dispatcher(Stock())]):
        yield stock_v1.StockClient(rpc)


async def test_calls_have_types(stock: stock_v1.StockClient) -> None:
    level = await stock.level(article=4711)
    assert level == stock_v1.LevelOut(pieces=12, places=[stock_v1.Place(aisle=3, pieces=12)])
    assert (await stock.reserve(article=4711, pieces=2)).reservation == "4711-2-today"
    assert (
        await stock.reserve(article=4711, pieces=1, until="2026-12-24")
    ).reservation == "4711-1-2026-12-24"
    match (await stock.history.movements(article=4711, day="2026-11-23")).movements:
        case [stock_v1.MovementCounted(), stock_v1.MovementSold(value)]:
            assert value == 3
        case other:
            pytest.fail(f"{other}")


async def test_declared_errors_are_raised_with_their_values(stock: stock_v1.StockClient) -> None:
    with pytest.raises(common.NoSuchArticle, match=r"no article of this number: 1 \[NO_SUCH_ARTICLE\]"):
        await stock.level(article=1)
    with pytest.raises(stock_v1.NotEnough) as error:
        await stock.reserve(article=4711, pieces=100)
    assert error.value.value == 12


async def test_wrong_inputs_are_not_sent(stock: stock_v1.StockClient) -> None:
    wrong: Any = "4711"
    with pytest.raises(ValueError, match=r"level: Expected `int`, got `str` - at `\$\.article`"):
        await stock.level(article=wrong)
    with pytest.raises(TypeError, match="pieces"):
        await stock.reserve(article=4711)  # type: ignore[call-arg]


async def test_wrong_types_from_another_caller_are_refused(stock: stock_v1.StockClient, rpc: Rpc) -> None:
    for parameters in ({}, {"article": "4711"}, {"article": 2**63}, {"article": 4711, "shelf": 1}):
        with pytest.raises(ServiceError, match=r"level: .* \[BAD_PARAMETERS\]"):
            await rpc.request("stock", "level", parameters, interface="stock", version="1.2")
    answer = await rpc.call("stock", "level", article=4711, interface="stock", version="1.0")
    assert answer == {"pieces": 12, "places": [{"aisle": 3, "pieces": 12}]}
    with pytest.raises(ServiceError) as error:
        await rpc.call("stock", "level", article=1)
    assert (error.value.code, error.value.data) == ("NO_SUCH_ARTICLE", 1)
    with pytest.raises(ServiceError, match="UNKNOWN_VERSION"):
        await rpc.call("stock", "level", article=4711, interface="stock", version="1.3")


async def test_wrong_types_from_another_server_are_told(rpc: Rpc) -> None:
    wrong = [{"pieces": "12", "places": []}, {"pieces": 12}, None]
    answers = iter([*wrong, {"pieces": 1, "places": [], "later": 0}])

    async def level(article: int) -> Any:
        return next(answers)

    async with rpc.serve("stock", {"level": level}):
        stock = stock_v1.StockClient(rpc)
        for _ in wrong:
            with pytest.raises(BadReply, match="the reply of 'level' is not of its type"):
                await stock.level(article=4711)
        assert await stock.level(article=4711) == stock_v1.LevelOut(pieces=1, places=[])


async def test_a_server_that_fails_is_an_internal_error(rpc: Rpc, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(stock_v1.Stock_skeleton):
        async def level(self, *, article: int) -> stock_v1.LevelOut:
            if article == 1:
                raise KeyError("shelf")
            if article == 2:
                raise stock_v1.NotEnough(3)
            if article == 3:
                return stock_v1.LevelOut(pieces="three", places=[])  # type: ignore[arg-type]
            return None  # type: ignore[return-value]

    async with rpc.serve("stock", [stock_v1.Stock_server_dispatcher(Failing())]):
        stock = stock_v1.StockClient(rpc)
        for article, said in (
            (1, "KeyError"),
            (2, "'level' raised not_enough, which it does not declare"),
            (3, "'level' returned a wrong value: Expected `int`, got `str`"),
            (4, "'level' returned NoneType, not LevelOut"),
        ):
            with caplog.at_level(logging.WARNING, "sapwood.rpc"), pytest.raises(InternalError, match=said):
                await stock.level(article=article)
            assert len(caplog.records) == article
        with pytest.raises(ServiceError, match=r"'history\.movements' is not implemented \[UNIMPLEMENTED\]"):
            await stock.history.movements(article=1, day="")


async def test_two_versions_are_served_on_one_queue(rpc: Rpc) -> None:
    class Old(stock_v1.Interface):
        """Version 0.9, by hand."""

    async def level(article: int) -> int:
        return -article

    old = Old({"level": level}, "stock", "0.9")
    async with rpc.serve("stock", [old, stock_v1.Stock_server_dispatcher(Stock())]):
        assert (await stock_v1.StockClient(rpc).level(article=4711)).pieces == 12
        assert await rpc.call("stock", "level", article=4711, interface="stock", version="0.9") == -4711


async def test_test_servers_answer_every_function(rpc: Rpc) -> None:
    served = [
        administration_v1.Administration_server_dispatcher(administration_v1.Administration_test()),
        tills_v1.Tills_server_dispatcher(tills_v1.Tills_test()),
    ]
    async with rpc.serve("all", served):
        administration = administration_v1.AdministrationClient(rpc, "all")
        described = (await administration.describe(store="york")).description
        assert described.address == administration_v1.Address(street="text", town="text")
        assert described.hours == {"text": ("text", "text")}
        assert (await administration.tree()).root.regions == []
        await administration.changes.open(description=described)
        assert (await administration.changes.close(store="york", last_day="")).waiting is None
        tills = tills_v1.TillsClient(rpc, "all")
        assert (await tills.list_()).tills == {1: tills_v1.StateClosed()}
        assert (await tills.restart(till=1, even_if_open=True)) is None  # type: ignore[func-returns-value]


async def test_a_namespace_may_have_a_server_of_its_own(rpc: Rpc) -> None:
    async with rpc.serve("stock", [stock_v1.StockHistory_server_dispatcher(stock_v1.StockHistory_test())]):
        stock = stock_v1.StockClient(rpc)
        assert (await stock.history.movements(article=1, day="")).movements == [stock_v1.MovementSold(1)]
        with pytest.raises(ServiceError, match="UNKNOWN_METHOD"):
            await stock.level(article=1)


async def test_a_task_is_passed_on(rpc: Rpc) -> None:
    class Seen(stock_v1.Stock_skeleton):
        def __init__(self) -> None:
            super().__init__()
            self.tasks: list[str] = []

        async def level(self, *, article: int) -> stock_v1.LevelOut:
            self.tasks.append(current_task())
            return stock_v1.LevelOut(pieces=0, places=[])

    server = Seen()
    async with rpc.serve("stock", [stock_v1.Stock_server_dispatcher(server)]):
        with task("order 7"):
            await stock_v1.StockClient(rpc).level(article=1)
    assert server.tasks == ["order 7"]


async def test_nobody_serves_is_told_at_once(rpc: Rpc) -> None:
    with pytest.raises(NobodyServes):
        await stock_v1.StockClient(rpc, timeout=None).level(article=1)


async def test_programs_without_asyncio_call_and_serve(node: Node) -> None:
    def work() -> None:
        served = [stock_v1.Stock_server_dispatcher(Stock())]
        with (
            sync.connect(f"http://127.0.0.1:{node.port}") as client,
            client.rpc.serve("stock", served),
        ):
            stock = stock_v1.StockSyncClient(client.rpc, timeout=60)
            assert stock.level(article=4711).pieces == 12
            assert stock.history.movements(article=1, day="").movements[1] == stock_v1.MovementSold(3)
            with pytest.raises(common.NoSuchArticle):
                stock.level(article=1)

    await asyncio.to_thread(work)


async def test_the_command_line_calls_a_function(
    node: Node, stock: stock_v1.StockClient, capsys: pytest.CaptureFixture[str]
) -> None:
    async def says(*words: str) -> tuple[int, str, str]:
        url = ("--url", f"http://127.0.0.1:{node.port}")
        code = await asyncio.to_thread(
            main, stock_v1.INTERFACE, stock_v1.VERSION, stock_v1.FUNCTIONS, [*url, *words]
        )
        return code, *capsys.readouterr()

    assert await says("level", "--article", "4711") == (
        0,
        'pieces: 12\nplaces: [{"aisle":3,"pieces":12}]\n',
        "",
    )
    code, out, _ = await says("--json", "reserve", "--article", "4711", "--pieces", "1", "--until", "noon")
    assert (code, json.loads(out)) == (0, {"reservation": "4711-1-noon"})
    code, out, err = await says("level", "--article", "1")
    assert (code, out) == (1, "")
    assert err == "HQ knows no article of this number: 1 [NO_SUCH_ARTICLE]\n"
    code, _, err = await says("level", "--article", str(2**63))
    assert code == 2
    assert "level: Expected `int` <=" in err


def test_the_command_line_takes_every_type(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main("tills", "1.1", tills_v1.FUNCTIONS, ["restart", "--help"])
    out = capsys.readouterr().out
    assert "--even-if-open, --no-even-if-open" in out
    assert "Whether a customer may wait meanwhile." in out
    with pytest.raises(SystemExit):
        main("administration", "1.0", administration_v1.FUNCTIONS, ["changes.open", "--description", "{"])
    assert "expected JSON, found '{'" in capsys.readouterr().err
    wrong = ["changes.open", "--description", '{"store": 1}']
    assert main("administration", "1.0", administration_v1.FUNCTIONS, wrong) == 2
    assert "changes.open: " in capsys.readouterr().err


class _OddIn(stubs.Struct, forbid_unknown_fields=True):
    help: stubs.Int64
    open: bool
    no_open: bool


class _OddOut(stubs.Struct):
    pass


def test_a_function_may_have_inputs_and_texts_of_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    odd = stubs.Function("odd", _OddIn, _OddOut, about="50 % of %d", inputs_about={"help": "%(prog)s"})
    for words, said in (
        (["--help"], "50 % of %d"),
        (["odd", "-h"], "50 % of %d\n\n"),
        (["odd", "-h"], "%(prog)s"),
    ):
        with pytest.raises(SystemExit) as ended:
            main("odd", "1.0", [odd], words)
        assert ended.value.code == 0
        assert said in capsys.readouterr().out
    words = ["--url", "http://127.0.0.1:1", "odd", "--help", "1", "--open", "false", "--no-no-open"]
    assert main("odd", "1.0", [odd], words) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert main("odd", "1.0", [odd], ["--ca", "/nowhere/ca.pem", *words]) == 1
    assert "'/nowhere/ca.pem'" in capsys.readouterr().err
    assert main("odd", "1.0", [odd], [*words, "--help", str(2**64)]) == 2
    assert capsys.readouterr().err.startswith("odd: Expected `int`")
    for wrong, said in (
        (["--timeout", "inf", *words], "expected seconds above 0, as 30, found 'inf'"),
        (["--timeout", "nan", *words], "expected seconds above 0, as 30, found 'nan'"),
        ([*words, "--open", "[" * 50_000 + "]" * 50_000], "expected JSON, found"),
    ):
        with pytest.raises(SystemExit) as ended:
            main("odd", "1.0", [odd], wrong)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_a_command_that_is_stopped_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "connect", stopped)
    assert main("stock", "1.2", stock_v1.FUNCTIONS, ["level", "--article", "1"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_names_of_errors_that_are_the_librarys_are_refused() -> None:
    from interfaces.check import RESERVED_ERRORS
    from sapwood import rpc_messages, stubs

    codes = {
        value
        for name, value in vars(rpc_messages).items()
        if name.isupper() and value == name and name != "CONTENT_TYPE"
    }
    assert {*codes, stubs.UNIMPLEMENTED, "NOBODY_SERVES"} == {each.upper() for each in RESERVED_ERRORS}


def test_a_character_that_the_terminal_lacks_is_a_question_mark() -> None:
    program = "from sapwood.stub_commands import main; main('ä', '1.0', [], ['--help'])"
    words, environment = [sys.executable, "-P", "-c", program], os.environ | {"PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180, env=environment)
    assert (ran.returncode, ran.stdout[:12]) == (0, "usage: ? 1.0"), ran.stderr
