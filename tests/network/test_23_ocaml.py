"""The library for OCaml at real nodes, blocking and with Lwt: verbs, calls, lines that break, kills."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGSTOP

import pytest
from harness import Network, waiting
from test_113_channels_in_ocaml import closed, says
from workspace import lines_of

from sapwood import Rpc, ServiceError, connect, current_request, task

PATIENCE = 180.0
Program = asyncio.subprocess.Process
NO_REQUESTS = [
    b'{"method": "echo", "parameters": {}, "x": NaN}',
    b'{"method": "echo", /* nobody */ "parameters": {}}',
    b'{method: "echo"}',
    b'{"method": "echo", "parameters": {"text": "\t"}}',
    b'{"method": "echo", "parameters": {"text": "\xff"}}',
    b'{"method": "echo" ' + "ü".encode() * 100,
]
"""What is no JSON, though parsers of OCaml take most of it."""
KINDS = pytest.mark.parametrize("kind", ["unix", "lwt"])


@asynccontextmanager
async def program(ocaml: Path, *words: str) -> AsyncIterator[Program]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    path = ocaml / "_build" / "default" / "programs" / "library.exe"
    process = await asyncio.create_subprocess_exec(path, *words, **pipes)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines(ocaml: Path, *words: str) -> list[str]:
    async with program(ocaml, *words) as process, asyncio.timeout(PATIENCE):
        return await lines_of(process)


async def asked(process: Program, text: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n".encode())
    await process.stdin.drain()
    return await says(process)


@asynccontextmanager
async def stand_in(
    answers: Callable[[str], bytes | list[bytes] | Awaitable[bytes] | None],
) -> AsyncIterator[str]:
    """The address of what speaks as a node does. None: it says one byte after the other, without an end.

    A list: it says one piece after the other, a second apart. An awaitable: its answer comes later.
    """

    ends: list[asyncio.Future[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(end := asyncio.get_running_loop().create_future())
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if size := re.search(r"(?i)content-length: (\d+)", head):
                    await reader.readexactly(int(size[1]))
                answer = answers(head.split("/")[1].split(" ")[0])
                if isinstance(answer, Awaitable):
                    answer = await answer
                if isinstance(answer, list):
                    for piece in answer:
                        writer.write(piece)
                        await asyncio.sleep(1)
                    continue
                writer.write(answer or b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while answer is None:
                    writer.write(b".")
                    await writer.drain()
                    await asyncio.sleep(0.1)
        with suppress(OSError):
            await closed(writer)
        end.set_result(None)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*ends)


def answer(body: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@KINDS
async def test_a_call_ends_in_time_though_its_node_goes_on_speaking(kind: str, ocaml: Path) -> None:
    known = {"login": answer(), "create": answer("transient-1@hq"), "subscribe": answer(), "send": answer()}
    async with stand_in(known.get) as url, program(ocaml, kind, "wait", url, "nobody") as caller:
        assert await says(caller) == '"4." of nobody was not answered in time'


async def test_a_large_answer_may_take_its_time_on_a_slow_line(ocaml: Path) -> None:
    """Of both kinds at once: it takes longer than a node may be silent."""
    request = json.dumps({"method": "echo", "parameters": {"line": "x" * 200_000}})
    body = answer(
        json.dumps({"messages": [[1, {"payload": request, "correlation_id": 1, "reply_to": "back"}]]})
    )
    pieces = [body[place : place + 6000] for place in range(0, len(body), 6000)]
    assert len(pieces) > 33
    known: dict[str, bytes | list[bytes]] = {"create": answer("echo")}

    async def served(kind: str) -> None:
        transfers, replied = iter([pieces]), asyncio.Event()

        def answers(verb: str) -> bytes | list[bytes]:
            if verb == "send":
                replied.set()
            if verb == "transfer":
                return next(transfers, answer('{"messages":[]}'))
            return known.get(verb, answer())

        async with stand_in(answers) as url, program(ocaml, kind, "serve", url, "echo") as server:
            assert await says(server) == "serving"
            async with asyncio.timeout(PATIENCE):
                await replied.wait()

    await asyncio.gather(served("unix"), served("lwt"))


@KINDS
async def test_a_node_that_is_busy_is_asked_again(kind: str, ocaml: Path) -> None:
    reply = '{"messages":[[1,{"payload":"{\\"result\\":1}","correlation_id":1}]]}'
    known = {"login": answer(), "create": answer("transient-1@hq"), "transfer": answer(reply)}
    busy = iter([answer("BUSY: too many", "503 Service Unavailable")] * 2)

    def answers(verb: str) -> bytes:
        return next(busy, answer()) if verb == "send" else known.get(verb, answer())

    async with stand_in(answers) as url, program(ocaml, kind, "lines", url, "echo") as caller:
        assert await asked(caller, "1") == "1"
    assert next(busy, None) is None


@KINDS
async def test_hundreds_at_once_make_their_lines_a_few_at_a_time(kind: str, ocaml: Path) -> None:
    """A node ends lines of strangers where there are too many: then all would begin again."""
    under_way, most, sent = 0, 0, 0

    async def login() -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.1)
        under_way -= 1
        return answer()

    def answers(verb: str) -> bytes | Awaitable[bytes]:
        nonlocal sent
        sent += verb == "send"
        return login() if verb == "login" else answer()

    async with stand_in(answers) as url:
        assert await lines(ocaml, kind, "many", url, "sales") == ["sent"]
    assert (most, sent) == (8, 300)


@KINDS
async def test_a_queue_that_is_refused_when_the_session_is_made_anew_ends_nothing_else(
    kind: str, ocaml: Path
) -> None:
    """Whoever serves it asks for it again, until it has it."""
    request = '{"messages":[[1,{"payload":"{\\"method\\":\\"echo\\"}","reply_to":"back"}]]}'
    broken, replied = b"no answer\r\n\r\n", asyncio.Event()
    transfers = iter([broken, answer(request)])
    made = iter([answer("echo")] * 2 + [answer("REFUSED: not yours", "403 Forbidden")] * 2)

    def answers(verb: str) -> bytes:
        if verb == "send":
            replied.set()
        if verb == "transfer":
            return next(transfers, answer('{"messages":[]}'))
        return next(made, answer("echo")) if verb == "create" else answer()

    async with stand_in(answers) as url, program(ocaml, kind, "serve", url, "echo") as server:
        assert await says(server) == "serving"
        async with asyncio.timeout(PATIENCE):
            await replied.wait()
            assert server.stderr is not None
            said = [(await server.stderr.readline()).decode().rstrip() for _ in range(2)]
    assert said == [
        "sapwood: ! /create/echo is refused from now on: not yours",
        "sapwood: ! echo is not read: not yours",
    ]


@KINDS
async def test_each_verb_does_what_the_protocol_says(kind: str, network: Network, ocaml: Path) -> None:
    network.add("hq")
    await network.start()
    help_ = f"{network.url('hq')}/docs"
    said = await lines(ocaml, kind, "verbs", network.url("hq"))
    assert [re.sub(r"transient-[\w-]+", "FRESH", each) for each in said] == [
        f"token a till/7, help {help_}",
        "stock/ü ?#% true",
        f"NOT_FOUND, see {help_}",
        "stock/ü ?#%",
        r'text "text \195\188" -9223372036854775808 ""',
        r'bytes "\000\255" 18446744073709551615 ' + '"FRESH@hq"',
        f"TOO_LARGE, see {help_}",
        "0 left",
        "0 queues",
        "the session was closed: make another one",
    ]


@KINDS
async def test_a_process_that_was_forked_takes_nothing_of_the_one_that_forked(
    kind: str, network: Network, ocaml: Path
) -> None:
    network.add("hq")
    await network.start()
    said = await lines(ocaml, kind, "forks", network.url("hq"), "forks")
    assert said == ["the session was closed: make another one", "0 made anew"]
    assert await network.collect("hq", "queue:forks", 2) == [b"before", b"after"]


@KINDS
async def test_calls_across_the_tree_end_as_the_service_says(kind: str, tree: Network, ocaml: Path) -> None:
    async with program(ocaml, kind, "serve", tree.url("york"), "echo") as server:
        assert await says(server) == "serving"
        await tree.until_known("hq", "queue:echo")
        said = await lines(ocaml, kind, "calls", tree.url("hq"), "echo")
        assert json.loads(said[0]) == {"text": '𝄞\0"\\', "number": 2**63 - 1}
        assert said[1] == 'FAILED: Failure("on purpose") null'
        assert "Canceled" in said[2]
        assert said[3] == "NO: no [1]"
        assert said[4] == "FAILED: NaN value not allowed in standard JSON null"
        assert said[5] == "FAILED: a text that is no UTF-8 is no JSON null"
        assert said[6] == "FAILED: an error that cannot be said: a text that is no UTF-8 is no JSON null"
        assert said[7] == "Infinity value not allowed in standard JSON"
        assert said[8].startswith("RESULT_TOO_LARGE: ")
        assert said[9] == "{}"
        assert said[10] == 'UNKNOWN_VERSION: no version "1.3" of "echo" here: echo 1.2 null'
        assert said[11] == 'UNKNOWN_INTERFACE: no interface "other" here: echo 1.2 null'
        assert said[12] == 'UNKNOWN_METHOD: no method "no" here: echo null'
        told = {"method": "echo", "signature": "echo", "interface": "echo", "version": "1.2"}
        assert json.loads(said[13]) == [{**told, "text": "Says it again."}]
        assert said[14:] == [
            "few threads",
            "30 right",
            "NOBODY_SERVES: nobody in the whole tree serves queue:nobody reads this null",
            "the session was closed: make another one",
        ]


@KINDS
async def test_python_asks_and_answers(kind: str, tree: Network, ocaml: Path) -> None:
    async def echo(line: str) -> str:
        asked = current_request().properties
        assert 0 < asked.expires_in <= 30_000
        assert asked.task_id == line or (not line and len(asked.task_id) == 32)
        if not line:
            raise ServiceError("EMPTY", "say something")
        return line

    async with connect(tree.url("hq")) as client, Rpc(client) as rpc:
        async with program(ocaml, kind, "serve", tree.url("york"), "theirs") as server:
            assert await says(server) == "serving"
            await tree.until_known("hq", "queue:theirs")
            assert await rpc.call("theirs", "echo", text="ü", none=None) == {"text": "ü", "none": None}
            with pytest.raises(ServiceError, match="on purpose"):
                await rpc.call("theirs", "echo", fail=1)
            with task("order ü"):
                assert await rpc.call("theirs", "echo", task=1) == "order ü"
            own = await client.create()
            for payload in NO_REQUESTS:
                await client.send("queue:theirs", payload, reply_to=own)
            answers = client.subscribe(f"queue:{own}")
            for payload in NO_REQUESTS:
                answered = await answers.next(PATIENCE)
                assert answered is not None
                assert b'{"error":{"code":"BAD_REQUEST","message":"not a request: ' in answered.payload, (
                    payload
                )
            answers.close()
        async with (
            rpc.serve("ours", {"echo": echo}),
            program(ocaml, kind, "lines", tree.url("york"), "ours") as caller,
        ):
            assert await asked(caller, "ü𝄞") == '"ü𝄞"'
            assert await asked(caller, "") == "EMPTY: say something null"
        async with program(ocaml, kind, "lines", tree.url("york"), "absent") as caller:
            told = "NOBODY_SERVES: nobody serves queue:absent: node hq knows of no reader in the whole tree "
            assert await asked(caller, "1") == told + '{"destination":"queue:absent","node":"hq"}'


@KINDS
async def test_nobody_has_answers_sent_to_a_fresh_queue_of_another_node(
    kind: str, tree: Network, ocaml: Path
) -> None:
    async with connect(tree.url("york")) as victim, connect(tree.url("hq")) as thief:
        theirs = await victim.create()
        async with program(ocaml, kind, "serve", tree.url("york"), "echo") as server:
            assert await says(server) == "serving"
            await tree.until_known("hq", "queue:echo")
            for reply_to in (theirs, own := await thief.create()):
                await thief.send("queue:echo", b'{"method": "echo"}', reply_to=reply_to)
            async for answer in thief.subscribe(f"queue:{own}"):
                assert answer.payload == b'{"result":{}}'
                break
            assert server.stderr is not None
            why = f"PERMIT: hq may have answers sent to fresh queues of its own, not to {theirs}"
            said = (await server.stderr.readline()).decode()
            assert said == f"sapwood: ! echo: a request is not served: {why}\n"
        assert list((await tree.status("york"))["dead"]["reasons"]) == [f"REJECTED: {why}"]


@KINDS
async def test_both_sides_outlive_the_kill_of_their_nodes(kind: str, tree: Network, ocaml: Path) -> None:
    async with (
        program(ocaml, kind, "serve", tree.url("york"), "echo") as server,
        program(ocaml, kind, "lines", tree.url("hq"), "echo") as caller,
    ):
        assert await says(server) == "serving"
        await tree.until_known("hq", "queue:echo")
        assert await asked(caller, "1") == '{"line":"1"}'
        for name in ("york", "hq"):
            tree.kill(name)
            await tree.start(name)
            await tree.until_known("hq", "queue:echo")
            assert await asked(caller, "2") == '{"line":"2"}'
        assert server.returncode is None


@KINDS
async def test_a_call_waits_for_a_node_that_is_away(kind: str, tree: Network, ocaml: Path) -> None:
    async with (
        program(ocaml, kind, "serve", tree.url("york"), "echo") as server,
        program(ocaml, kind, "lines", tree.url("hq"), "echo") as caller,
    ):
        assert await says(server) == "serving"
        await tree.until_known("hq", "queue:echo")
        assert await asked(caller, "1") == '{"line":"1"}'
        tree.kill("york")
        asking = asyncio.create_task(asked(caller, "2"))
        await tree.start("york")
        assert await asking == '{"line":"2"}'


@KINDS
async def test_a_server_has_no_more_requests_than_it_works_on(
    kind: str, network: Network, ocaml: Path
) -> None:
    network.add("hq")
    await network.start()
    url = network.url("hq")
    async with connect(url) as client, Rpc(client) as rpc:
        await client.create("echo")
        own = await client.create()
        for _ in range(8):
            await client.send("queue:echo", b'{"method": "echo", "parameters": {"sleep": 1000}}')
        await client.send("queue:echo", b'{"method": "echo"}', reply_to=own)
        async with program(ocaml, kind, "serve", url, "echo") as server:
            assert [await says(server) for _ in range(9)] == ["serving", *["sleeps"] * 8]
            async with rpc.serve("echo", {"echo": lambda: "helped"}):
                answered = await client.subscribe(f"queue:{own}").next(PATIENCE)
    assert answered is not None
    assert answered.payload == b'{"result":"helped"}'


async def test_a_signal_that_the_program_handles_breaks_no_line_and_doubles_nothing(
    network: Network, ocaml: Path
) -> None:
    network.add("hq")
    await network.start()
    assert await lines(ocaml, "unix", "signals", network.url("hq"), "ticks") == ["sent"]
    got = await network.collect("hq", "queue:ticks", 300)
    assert got == [b"%d" % number for number in range(300)]
    await network.until_drained("hq")


@KINDS
async def test_a_server_reads_again_where_its_queue_was_deleted_or_its_node_lost_its_disk(
    kind: str, network: Network, ocaml: Path
) -> None:
    network.add("hq")
    await network.start()
    url = network.url("hq")
    async with (
        program(ocaml, kind, "serve", url, "echo") as server,
        program(ocaml, kind, "lines", url, "echo") as caller,
    ):
        assert await says(server) == "serving"
        for number in range(3):
            assert await asked(caller, f"{number}") == f'{{"line":"{number}"}}'
        async with connect(url) as client:
            await client.delete("echo")
        assert await asked(caller, "deleted") == '{"line":"deleted"}'
        network.kill("hq")
        shutil.rmtree(network.folder / "data" / "hq")
        await network.start("hq")
        async with asyncio.timeout(PATIENCE):
            while (said := await asked(caller, "new")).startswith("NOBODY_SERVES"):
                await asyncio.sleep(0.1)
        assert said == '{"line":"new"}'


@KINDS
async def test_a_call_that_waits_less_ends_first_where_the_node_is_silent(
    kind: str, network: Network, ocaml: Path
) -> None:
    network.add("hq")
    await network.start()
    async with connect(network.url("hq")) as client:
        await client.create("nobody")
    async with program(ocaml, kind, "wait", network.url("hq"), "nobody") as caller:
        await network.until("hq", lambda status: waiting(status) == 2, "asked twice")
        async with connect(network.url("hq")) as client:
            await client.create("later")  # what was sent before is on disk by then, and answered
        network.nodes["hq"].signal(SIGSTOP)
        assert await says(caller) == '"4." of nobody was not answered in time'
