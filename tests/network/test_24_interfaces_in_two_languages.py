"""Generated Python and OCaml ask and answer each other across three nodes: every type with its edges, errors,
wrong types, two versions, and a server that is killed in the middle."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL, SIGSTOP
from typing import Any

import pytest
from harness import Network
from test_22_interfaces_across_a_tree import SLOW
from workspace import FILES, ROOT, lines_of

from sapwood import Rpc, ServiceError, connect
from sapwood.stub_samples import sample
from sapwood.stubs import InternalError

sys.path.insert(0, str(ROOT / "tests" / "interfaces"))
from every import package

EXAMPLES = ROOT / "examples" / "interfaces" / "python"
PATIENCE = 180.0
SERVED = ["same"] * 5 + ["gone 7", "wrong, the same", "FAILED", "FAILED"]
"""What the client in OCaml sees of a server, in either language."""
REFUSED = [
    "wrong: from: float: expected a finite number",
    "wrong: from: str: expected a Unicode text in UTF-8",
    'wrong: from: by_text: [1]: the key "a" is there twice',
    "closed",
    "second",
    "9.9",
]
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.fixture
def every(tmp_path: Path) -> Any:
    """The generated Python of both versions."""
    return package(tmp_path, FILES, "every_in_two_languages")


@asynccontextmanager
async def run(*words: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES}"}
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=os.environ | paths)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def says(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert (await process.stdout.readline()).decode().startswith(text)


async def printed(*words: str | Path) -> list[str]:
    async with run(*words) as process, asyncio.timeout(PATIENCE):
        return await lines_of(process)


def peer(ocaml: Path) -> Path:
    return ocaml / "_build" / "default" / "programs" / "peer.exe"


def server(v1: Any, v2: Any) -> list[Any]:
    class First(v1.Every_skeleton):  # type: ignore[misc]
        async def echo(self, *, from_: Any, lambda_: Any = None) -> Any:
            match from_.str_:
                case "gone":
                    raise v1.Gone(7)
                case "wrong":
                    raise v1.Wrong(from_)
                case "undeclared":
                    raise RuntimeError("on purpose")
                case "not finite":
                    return v1.EchoOut(all=v1.All(**{**fields(from_), "float_": float("nan")}), maybe=lambda_)
            return v1.EchoOut(all=from_, maybe=lambda_)

        async def nothing(self) -> None:
            raise v1.Closed

    class Second:
        async def nothing(self) -> Any:
            return v2.NothingOut(said="second")

        async def version(self, *, version: str) -> Any:
            return v2.VersionOut(said=version)

    return [v1.Every_server_dispatcher(First()), v2.Every_server_dispatcher(Second())]


def fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def values(v1: Any) -> list[Any]:
    """The edges of every type."""
    empty = {
        "int_": 0,
        "float_": 0.0,
        "str_": "",
        "bool_": False,
        "lists": [],
        "by_number": {},
        "by_text": {},
    }
    empty["texts"] = v1.PairOfTexts(first="", second="")
    tree = v1.Tree(name='ü𝄞\0"\\', below=[v1.Tree(name="", below=[])], next=v1.Tree(name="n", below=[]))
    lists = [
        v1.ListClass(SMALLEST),
        v1.ListPair(("", tree)),
        v1.ListInner(v1.ListInner(v1.ListNone())),
        v1.ListMayBe(),
        v1.ListMayBe(0.1),
        v1.ListNothing(),
        v1.ListNone(),
    ]
    full = {"int_": LARGEST, "float_": -1e300, "str_": "\0\u2028𝄞", "bool_": True, "lists": lists}
    full |= {
        "maybe": v1.ListClass(1),
        "by_number": {SMALLEST: [], 7: ["a", ""]},
        "by_text": {"": None, "ü": 3},
    }
    return [
        v1.All(**empty),
        v1.All(**(empty | full)),
        v1.All(**(empty | {"int_": SMALLEST, "float_": 5e-324})),
        v1.All(**(empty | {"int_": 2**62, "float_": 1e22})),
    ]


def module(every: Any, version: int) -> Any:
    return __import__("importlib").import_module(f"{every.__name__}.every_v{version}")


async def test_ocaml_asks_python_and_ocaml(tree: Network, ocaml: Path, every: Any) -> None:
    served = server(module(every, 1), module(every, 2))
    async with connect(tree.url("york")) as client, Rpc(client) as rpc, rpc.serve("every", served):
        await tree.until_known("hq", "queue:every")
        assert await printed(peer(ocaml), "ask", tree.url("hq")) == SERVED + REFUSED
    for kind in ("unix", "lwt"):
        async with run(peer(ocaml), kind, tree.url("york")) as serving:
            await says(serving, "serving")
            await tree.until_known("hq", "queue:every")
            assert await printed(peer(ocaml), "ask", tree.url("hq")) == SERVED + REFUSED


@pytest.mark.parametrize("kind", ["unix", "lwt"])
async def test_python_asks_ocaml(kind: str, tree: Network, ocaml: Path, every: Any) -> None:
    v1, v2 = module(every, 1), module(every, 2)
    async with (
        run(peer(ocaml), kind, tree.url("york")) as serving,
        connect(tree.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
    ):
        await says(serving, "serving")
        await tree.until_known("hq", "queue:every")
        first = v1.EveryClient(rpc)
        for value in values(v1):
            answer = await first.echo(from_=value, lambda_=value.maybe)
            assert answer == v1.EchoOut(all=value, maybe=value.maybe)
        said = fields(values(v1)[1])
        with pytest.raises(v1.Gone) as gone:
            await first.echo(from_=v1.All(**(said | {"str_": "gone"})))
        assert gone.value.value == 7
        with pytest.raises(v1.Wrong) as wrong:
            await first.echo(from_=v1.All(**(said | {"str_": "wrong"})))
        assert wrong.value.value == v1.All(**(said | {"str_": "wrong"}))
        for text, told in (
            ("undeclared", "on purpose"),
            ("not finite", "returned a wrong value: all: float"),
        ):
            with pytest.raises(InternalError, match=told):
                await first.echo(from_=v1.All(**(said | {"str_": text})))
        with pytest.raises(v1.Closed):
            await first.nothing()
        assert await v2.EveryClient(rpc).nothing() == v2.NothingOut(said="second")
        assert await v2.EveryClient(rpc).version(version="9.9") == v2.VersionOut(said="9.9")
        with pytest.raises(ServiceError, match="UNIMPLEMENTED"):
            await first.for_.while_.list_(all=v1.ForAll(x=1))
        wrong_ones: list[Any] = [{}, {"all": {}}, {"all": {"x": "1"}}, {"all": {"x": 1}, "unknown": 1}]
        for parameters in (*wrong_ones, {"all": {"x": 2**63}}):
            with pytest.raises(ServiceError, match="BAD_PARAMETERS"):
                await rpc.request("every", "for.while.list", parameters, interface="every", version="1.3")
        with pytest.raises(ServiceError, match="UNKNOWN_VERSION"):
            await rpc.request("every", "nothing", {}, interface="every", version="1.4")


async def test_the_test_servers_say_the_same(tree: Network, ocaml: Path, every: Any) -> None:
    v1 = module(every, 1)
    async with (
        run(peer(ocaml), "test", tree.url("york")) as serving,
        connect(tree.url("hq")) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
    ):
        await says(serving, "serving")
        await tree.until_known("hq", "queue:every")
        assert await v1.EveryClient(rpc).echo(from_=values(v1)[0]) == sample(v1.EchoOut)
        assert await v1.EveryClient(rpc).for_.while_.list_(all=v1.ForAll(x=1)) == sample(v1.ForWhileListOut)


async def test_ocaml_refuses_a_reply_of_another_type(tree: Network, ocaml: Path) -> None:
    async def level(article: int) -> Any:
        return {"pieces": "twelve", "places": []}

    async with (
        connect(tree.url("hq")) as client,
        Rpc(client) as rpc,
        rpc.serve("stock", {"level": level}),
        run(peer(ocaml), "level", tree.url("hq")) as asking,
    ):
        assert asking.stderr is not None
        errors = (await asking.stderr.read()).decode()
    assert 'the reply of "level" is not of its type: pieces: expected a whole number, got a text' in errors


@pytest.mark.parametrize("ends", [SIGKILL, SIGSTOP])
async def test_a_call_in_ocaml_ends_in_time_though_its_node_does_not_come_back(
    tree: Network, ocaml: Path, ends: int
) -> None:
    began, never = asyncio.Event(), asyncio.Event()

    async def level(article: int) -> Any:
        began.set()
        await never.wait()

    async with (
        connect(tree.url("york")) as client,
        Rpc(client) as rpc,
        rpc.serve("stock", {"level": level}),
    ):
        await tree.until_known("hq", "queue:stock")
        asking = asyncio.create_task(printed(peer(ocaml), "late", tree.url("hq")))
        await began.wait()
        tree.nodes["hq"].signal(ends)
        assert await asking == ['"level" of stock was not answered in time']
        tree.kill("hq")
        never.set()


@pytest.mark.parametrize("asks", ["ocaml", "python"])
async def test_a_killed_server_is_answered_by_its_successor_in_the_other_language(
    tree: Network, ocaml: Path, asks: str
) -> None:
    python = (sys.executable, str(EXAMPLES / "server.py"))
    asker: tuple[str | Path, ...] = (peer(ocaml), "level", tree.url("hq"))
    if asks == "python":
        options = ("--url", tree.url("hq"), "--timeout", "60", "level", "--article", "4711")
        asker = (sys.executable, "-m", "chain.stock_v1", *options)
    for first, second in (
        ((peer(ocaml), "slow"), python),
        ((sys.executable, "-c", SLOW), (peer(ocaml), "ready")),
    ):
        async with run(*first, tree.url("york")) as killed:
            await says(killed, "serving")
            await tree.until_known("hq", "queue:stock")
            asking = asyncio.create_task(printed(*asker))
            await says(killed, "began")
            killed.kill()
            async with run(*second, tree.url("north")) as successor:
                await says(successor, "serving")
                assert (await asking)[0] in ("12 pieces", "pieces: 12")
