"""The library for JavaScript at real nodes: messages, calls, lines that break, kills."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from harness import Network, until_count
from node_js import LIBRARY, ROOT, command, running, said

from sapwood import NobodyServes, Rpc, ServiceError, connect
from sapwood.protocol.bundles import Foreign

COUNT = 3000
PAGE = (ROOT / "docs/javascript.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```js\nimport [^\n]* from \"sapwood\";\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = ["4711 17\n", "", "12\n", ""]


@pytest.fixture
async def hq(network: Network) -> Network:
    network.add("hq")
    await network.start()
    return network


async def test_all_that_a_message_carries_crosses_both_ways(tree: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url, { session: "till" });
    await client.create("from-python");
    const reading = client.subscribe("queue:from-python");
    await reading.ready();
    say({ node: client.node, state: client.state });
    const delivery = await reading.take({ timeout: 60_000 });
    const { properties, origin, destination } = delivery;
    say({ text: delivery.text(), properties, origin, destination });
    await client.send("queue:from-javascript", delivery.payload, { ...properties, expiresIn: undefined });
    delivery.ack();
    await client.close();
    say(client.state);
    """
    async with (
        running(tmp_path, source, tree.url("york")) as program,
        connect(tree.url("hq")) as client,
    ):
        assert await program.says() == {"node": "york", "state": "connected"}
        await client.create("from-javascript")
        await tree.until_known("hq", "queue:from-python")
        options: dict[str, Any] = {
            "correlation_id": (1 << 64) - 1,
            "reply_to": "queue:answers@hq",
            "task_id": "order 7",
            "message_id": "m-1",
            "content_type": "text/plain",
            "timestamp": 1_700_000_000,
            "priority": 7,
            "interface": "prices",
            "interface_version": "1.2",
            "headers": {
                "a": [1, 2.5, None, True, "ü"],
                "bytes": b"\0\xff",
                "large": -(1 << 63),
                "b": {"c": {}},
            },
            "foreign": Foreign(
                correlation=b"\x01", content_encoding="gzip", type="t", app_id="a", user_id="u"
            ),
        }
        await client.send("queue:from-python", "grüße".encode(), expires_in=600_000, **options)
        came = await program.says()
        assert (came["text"], came["origin"], came["destination"]) == ("grüße", "hq", "queue:from-python")
        assert came["properties"]["correlationId"] == f"{(1 << 64) - 1}n"
        assert 500_000 < came["properties"]["expiresIn"] <= 600_000
        back = await client.subscribe("queue:from-javascript").next(60)
        assert back is not None
        back.ack()
        assert back.payload == "grüße".encode()
        found = {name: getattr(back.properties, name) for name in options}
        assert found == options
        assert await program.says() == "closed"
        assert await program.ended() == 0


@pytest.mark.parametrize("size", [0, 300], ids=["short", "compressed"])
async def test_many_messages_of_both_libraries_are_read_once_each_and_in_order(
    hq: Network, tmp_path: Path, size: int
) -> None:
    source = """
    const client = await connect(url);
    await client.create("many");
    const rest = ".".repeat(words[0]);
    await client.sendMany("queue:many", Array.from({ length: 3000 }, (_, index) => `${index}${rest}`));
    let read = 0;
    for await (const delivery of client.subscribe("queue:python")) {
      if (parseInt(delivery.text()) !== read) throw new Error(`${delivery.text()} instead of ${read}`);
      delivery.ack();
      if (++read === 3000) break;
    }
    await client.close();
    say(read);
    """
    async with connect(hq.url("hq")) as client:
        await client.create("python")
        await client.send_many("queue:python", [b"%d%s" % (index, b"." * size) for index in range(COUNT)])
        assert await said(tmp_path, source, hq.url("hq"), str(size)) == [COUNT]
    got = await hq.collect("hq", "queue:many", COUNT)
    assert [int(each.rstrip(b".")) for each in got] == list(range(COUNT))
    await hq.until_drained("hq")


async def test_a_node_that_is_killed_loses_and_doubles_nothing_that_is_sent(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const lost = [];
    const client = await connect(url, { onLost: (error) => lost.push(error.name) });
    await client.create("sales");
    let confirmed = 0;
    const one = async (index) => {
      await client.send("queue:sales", String(index));
      if (++confirmed % 500 === 0) say(confirmed);
    };
    for (let index = 0; index < 3000; index += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, more) => one(index + more)));
    }
    await client.close();
    say({ lost, committed: client.committed });
    """
    async with running(tmp_path, source, hq.url("hq")) as program:
        assert await program.says() == 500
        for _ in range(2):
            hq.kill("hq")
            await hq.start("hq")
            await program.says()
        while isinstance(last := await program.says(), int):
            pass
        assert last["lost"] == ["ConnectFailed", "ConnectFailed"]
        assert last["committed"] == COUNT
    got = await hq.collect("hq", "queue:sales", COUNT)
    assert sorted(map(int, got)) == list(range(COUNT))
    await hq.until_drained("hq")


async def test_a_node_that_is_killed_gives_to_a_reader_what_it_lacks_and_nothing_twice(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url, { session: "reader" });
    const reading = client.subscribe("queue:orders", { credit: 50 });
    for (let read = 1; read <= 3000; read++) {
      const delivery = await reading.take({ timeout: 60_000 });
      say(delivery.text());
      delivery.ack();
      if (read % 1000 === 0) await told();
    }
    say(await reading.take({ timeout: 500 }));
    await client.close();
    """
    async with connect(hq.url("hq")) as client:
        await client.create("orders")
        await client.send_many("queue:orders", [b"%d" % index for index in range(COUNT)])
    got: list[str] = []
    async with running(tmp_path, source, hq.url("hq")) as program:
        for _ in range(3):
            got += [await program.says() for _ in range(COUNT // 3)]
            hq.kill("hq")
            await hq.start("hq")
            program.tell("go on")
        assert await program.says() is None
        assert await program.ended() == 0
    assert Counter(got) == Counter(map(str, range(COUNT)))


async def test_what_a_node_refuses_ends_alone(hq: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url);
    await client.create("a");
    const sent = ["queue:a", "topic:a/#", "queue:a"].map((where) => failed(client.send(where, where)));
    say(await Promise.all(sent));
    say(await failed(client.subscribe("queue:nothing").ready()));
    say(await failed(client.create("a".repeat(255))));
    say(await failed(client.delete("nothing")));
    say(await failed(client.endSubscription("nothing")));
    say(client.state);
    await client.close();
    say(await failed(client.send("queue:a", "3")));
    """
    sent, read, created, deleted, ended, state, after = await said(tmp_path, source, hq.url("hq"))
    assert [each.get("value", each.get("code")) for each in sent] == [None, "BAD_REQUEST", None]
    assert (sent[1]["name"], sent[1]["count"]) == ("SendRejected", 1)
    assert (read["name"], read["code"]) == ("RequestFailed", "NOT_FOUND")
    assert created == {"value": "a" * 255}
    assert (deleted["name"], deleted["code"]) == ("RequestFailed", "NOT_FOUND")
    assert ended["name"] == "RequestFailed"
    assert state == "connected"
    assert after["name"] == "ClientClosed"
    assert await hq.collect("hq", "queue:a", 2) == [b"queue:a", b"queue:a"]


async def test_who_gives_up_is_told_whether_it_was_sent(hq: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url, { windowMessages: 1 });
    await client.create("a");
    await client.send("queue:a", "1");
    say("before");
    await told();
    while (client.state !== "not connected") await new Promise((resolve) => setTimeout(resolve, 10));
    say(await failed(client.send("queue:a", "2", { timeout: 100 })));
    say(await failed(client.create("b", { signal: AbortSignal.timeout(100) })));
    say("given up");
    await told();
    await client.send("queue:a", "3", { timeout: 60_000 });
    await client.close();
    """
    async with running(tmp_path, source, hq.url("hq")) as program:
        assert await program.says() == "before"
        hq.kill("hq")
        program.tell("on")
        given_up = await program.says()
        assert (given_up["name"], given_up["sent"]) == ("SendGivenUp", False)
        assert (await program.says())["name"] == "RequestGivenUp"
        assert await program.says() == "given up"
        await hq.start("hq")
        program.tell("on")
        assert await program.ended() == 0
    assert await hq.collect("hq", "queue:a", 2) == [b"1", b"3"]


@pytest.mark.parametrize("window", [65_536, 70], ids=["within", "beyond"])
async def test_sends_that_nobody_waits_for_stay_in_order_within_the_window_and_beyond(
    hq: Network, tmp_path: Path, window: int
) -> None:
    source = """
    const client = await connect(url, { windowMessages: Number(words[0]) });
    await client.create("lines");
    const rest = ".".repeat(2000);
    const sent = Array.from({ length: 500 }, (_, index) => client.send("queue:lines", `${index} ${rest}`));
    sent.push(client.sendMany("queue:lines", Array.from({ length: 500 }, (_, index) => `${500 + index}`)));
    await Promise.all(sent);
    await client.close();
    say(client.committed);
    """
    assert await said(tmp_path, source, hq.url("hq"), str(window)) == [1000]
    got = await hq.collect("hq", "queue:lines", 1000)
    assert [int(each.split()[0]) for each in got] == list(range(1000))


async def test_what_was_sent_before_the_close_is_waited_for_beyond_the_window(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url, { windowMessages: 1 });
    await client.create("a");
    const sent = Array.from({ length: 20 }, (_, index) => client.send("queue:a", `${index}`));
    await client.close();
    await Promise.all(sent);
    say(client.committed);
    """
    assert await said(tmp_path, source, hq.url("hq")) == [20]


async def test_a_call_with_a_wrong_option_sends_nothing_and_ends_no_process(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url);
    const rpc = new Rpc(client);
    await client.create("a");
    const wrong = [{ timeout: "5" }, { timeout: 0 }, { signal: {} }];
    for (const each of wrong) {
      say((await failed(client.send("queue:a", "x", each))).name);
      say((await failed(client.send("topic:a/#", "refused", each))).name);
      say((await failed(client.create("b", each))).name);
      say((await failed(rpc.call("a", "x", {}, each))).name);
    }
    say((await failed(rpc.call("a", "x", {}, { timout: 5 }))).name);
    say((await failed(client.send("queue:a", "right", { timeout: Infinity }))).value);
    rpc.close();
    await client.close();
    """
    assert await said(tmp_path, source, hq.url("hq")) == ["TypeError"] * 13 + [None]
    queues = (await hq.status("hq"))["queues"]
    assert [(queue["name"], queue["messages"]) for queue in queues if queue["messages"]] == [("queue:a", 1)]
    assert await hq.collect("hq", "queue:a", 1) == [b"right"]


async def test_a_message_that_no_session_takes_ends_alone(hq: Network, tmp_path: Path) -> None:
    source = """
    const lost = [];
    const client = await connect(url, { onLost: (error) => lost.push(error.message) });
    await client.create("a");
    const large = new Uint8Array(17 * 1024 * 1024);
    say(await failed(client.send("queue:a", large)));
    say(await failed(client.sendMany("queue:a", ["first", large])));
    await client.send("queue:a", "next");
    await client.close();
    say(lost);
    """
    one, many, lost = await said(tmp_path, source, hq.url("hq"))
    assert (one["name"], one["code"], many["code"], lost) == ("SendRejected", "TOO_LARGE", "TOO_LARGE", [])
    assert await hq.collect("hq", "queue:a", 1) == [b"next"]


async def test_what_is_rejected_while_the_node_is_away_comes_again_and_blocks_nothing(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url, { session: "reader" });
    await client.create("a");
    await client.sendMany("queue:a", ["wrong", "right", "given back"]);
    const reading = client.subscribe("queue:a", { credit: 2 });
    const wrong = await reading.take({ timeout: 60_000 });
    const right = await reading.take({ timeout: 60_000 });
    say([wrong.text(), right.text()]);
    await told();
    while (client.state !== "not connected") await new Promise((resolve) => setTimeout(resolve, 10));
    wrong.reject("not today");
    wrong.ack();
    right.ack();
    say("rejected");
    const rest = [];
    while (rest.length < 3) {
      const delivery = await reading.take({ timeout: 60_000 });
      rest.push(delivery.text());
      if (delivery.text() === "wrong") delivery.reject("not today");
      else if (rest.filter((each) => each === "given back").length < 2) delivery.nack();
      else delivery.ack();
    }
    say(rest.sort());
    await client.close();
    """
    async with running(tmp_path, source, hq.url("hq")) as program:
        assert await program.says() == ["wrong", "right"]
        hq.kill("hq")
        program.tell("on")
        assert await program.says() == "rejected"
        await hq.start("hq")
        assert await program.says() == ["given back", "given back", "wrong"]
        assert await program.ended() == 0
    status = await hq.until("hq", lambda status: status["dead"]["messages"] == 1, "left with a letter")
    assert list(status["dead"]["reasons"]) == ["REJECTED: not today"]
    assert {queue["messages"] for queue in status["queues"]} == {0}


async def test_what_is_given_back_comes_again_and_what_is_rejected_is_a_dead_letter(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url);
    await client.create("a");
    await client.sendMany("queue:a", ["back", "wrong", "left"]);
    const reading = client.subscribe("queue:a");
    const back = await reading.take({ timeout: 60_000 });
    back.nack();
    (await reading.take({ timeout: 60_000 })).reject("not today");
    const rest = [await reading.take({ timeout: 60_000 }), await reading.take({ timeout: 60_000 })];
    say(rest.map((each) => [each.text(), each.redelivered]).sort());
    rest.find((each) => each.text() === "back").ack();
    reading.close();
    await client.close();
    """
    assert await said(tmp_path, source, hq.url("hq")) == [[["back", True], ["left", False]]]
    status = await hq.until("hq", lambda status: status["dead"]["messages"] == 1, "left with a letter")
    assert list(status["dead"]["reasons"]) == ["REJECTED: not today"]
    assert await hq.collect("hq", "queue:a", 1) == [b"left"]


async def test_topics_are_retained_durable_and_say_how_far_they_go(tree: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url, { session: "till" });
    const kept = { retained: true, scope: 0 };
    say(await client.send("topic:prices/tea", "9", kept));
    const prices = client.subscribe("topic:prices/#", { durable: "prices" });
    const first = await prices.take({ timeout: 60_000 });
    say([first.text(), first.retained, first.destination]);
    first.ack();
    say(await client.send("topic:prices/milk", "3"));
    (await prices.take({ timeout: 60_000 })).ack();
    await client.close();
    say("away");
    await told();
    const again = await connect(url, { session: "till" });
    const missed = await again.subscribe("topic:prices/#", { durable: "prices" }).take({ timeout: 60_000 });
    say(missed.text());
    missed.ack();
    await again.endSubscription("prices");
    await again.close();
    """
    async with running(tmp_path, source, tree.url("york")) as program:
        assert await program.says() == {"readers": 0, "onward": 0, "passedBy": 0, "scope": 0}
        assert await program.says() == ["9", True, "topic:prices/tea"]
        assert (await program.says())["readers"] == 1
        assert await program.says() == "away"
        await tree.send("york", "topic:prices/bread", [b"missed"])
        program.tell("on")
        assert await program.says() == "missed"
        assert await program.ended() == 0
    assert (await tree.status("york"))["subscriptions"] == []


async def test_calls_go_both_ways_between_python_and_javascript(tree: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url);
    const rpc = new Rpc(client);
    const handlers = {
      level: async ({ article }) => ({ article, level: 12, task: sapwood.currentTask() !== "" }),
      missing() { throw new ServiceError("NO_SUCH_ARTICLE", "none of these", { article: 1 }); },
      broken: (parameters) => parameters.nothing.at(0),
      ask: () => rpc.call("python", "twice", { number: 21 }),
    };
    const server = await rpc.serve("javascript", [{ name: "stock", version: "1.3", handlers }]);
    say("serves");
    await told();
    say(await failed(rpc.call("nobody", "level", {})));
    say(await failed(rpc.call("python", "none", {})));
    say(await failed(rpc.call("python", "slow", {}, { timeout: 100 })));
    await server.close();
    rpc.close();
    say([server.answered, server.errors]);
    await client.close();
    """
    async with (
        running(tmp_path, source, tree.url("york")) as program,
        connect(tree.url("hq")) as client,
        Rpc(client, timeout=60) as rpc,
    ):

        async def slow() -> None:
            await asyncio.sleep(3600)

        async with rpc.serve("python", {"twice": lambda number: 2 * number, "slow": slow}):
            assert await program.says() == "serves"
            await tree.until_known("hq", "queue:javascript")
            stock = rpc.service("javascript", interface="stock", version="1.2")
            assert await stock.level(article=4711) == {"article": 4711, "level": 12, "task": True}
            assert await stock.ask() == 42
            for method, code in (
                ("missing", "NO_SUCH_ARTICLE"),
                ("broken", "FAILED"),
                ("x", "UNKNOWN_METHOD"),
            ):
                with pytest.raises(ServiceError) as failed:
                    await rpc.request("javascript", method, {})
                assert failed.value.code == code
            with pytest.raises(ServiceError, match="UNKNOWN_VERSION"):
                await rpc.call("javascript", "level", interface="stock", version="2.0")
            program.tell("on")
            assert (await program.says())["name"] == "NobodyServes"
            assert (await program.says())["code"] == "UNKNOWN_METHOD"
            assert (await program.says())["name"] == "CallGivenUp"
            assert await program.says() == [6, 4]
            assert await program.ended() == 0
        await tree.until("york", lambda status: "javascript" not in str(status["routes"]), "without it")
        with pytest.raises(NobodyServes):
            await rpc.call("nobody", "level")


async def test_a_server_that_closes_lets_its_requests_end_and_nobody_is_given_them(
    hq: Network, tmp_path: Path
) -> None:
    source = """
    const client = await connect(url);
    const handlers = { async level({ article }) {
      say(article);
      await told();
      return article;
    } };
    const server = await new Rpc(client).serve("stock", handlers);
    say("serves");
    await told();
    const closed = server.close();
    say("closes");
    await closed;
    await server.over;
    say(server.answered);
    await client.close();
    """
    other = """
    const client = await connect(url);
    const rpc = new Rpc(client);
    const server = await rpc.serve("stock", { level: ({ article }) => `other ${article}` });
    say("serves");
    await told();
    await server.close();
    await client.close();
    """
    async with (
        running(tmp_path, source, hq.url("hq")) as first,
        connect(hq.url("hq")) as client,
        Rpc(client, timeout=60) as rpc,
    ):
        assert await first.says() == "serves"
        one = asyncio.create_task(rpc.call("stock", "level", article=1))
        assert await first.says() == 1
        first.tell("close")
        assert await first.says() == "closes"
        two = asyncio.create_task(rpc.call("stock", "level", article=2))
        async with running(tmp_path, other, hq.url("hq")) as second:
            assert await second.says() == "serves"
            three = asyncio.create_task(rpc.call("stock", "level", article=3))
            four = asyncio.create_task(rpc.call("stock", "level", article=4))
            await asyncio.wait([two, three, four], return_when=asyncio.FIRST_COMPLETED)
            first.tell("answer")
            assert await asyncio.gather(one, two, three, four) == [1, "other 2", "other 3", "other 4"]
            assert rpc.late == 0
            assert await first.says() == 1
            assert await first.ended() == 0
            second.tell("end")
            assert await second.ended() == 0


async def test_whatever_a_handler_throws_or_returns_is_an_answer(hq: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url);
    const rpc = new Rpc(client);
    const odd = { text: "no room", nothing: null, undefined, bare: Object.create(null), big: 5n };
    const throwing = ([name, thrown]) => [name, () => { throw thrown; }];
    const handlers = Object.fromEntries(Object.entries(odd).map(throwing));
    const returned = { number: () => 5n, symbol: () => Symbol("a"), fine: () => undefined };
    const wrong = () => { throw new ServiceError("WRONG", 5n, { data: 5n }); };
    const large = () => "x".repeat(17 * 1024 * 1024);
    const server = await rpc.serve("odd", { ...handlers, ...returned, wrong, large });
    for (const name of [...Object.keys(odd), ...Object.keys(returned), "wrong", "large"]) {
      const { value, code, text } = await failed(rpc.call("odd", name, {}, { timeout: 60_000 }));
      say([name, code ?? value, text]);
    }
    await server.close();
    await server.over;
    rpc.close();
    await client.close();
    """
    answers = {name: tuple(rest) for name, *rest in await said(tmp_path, source, hq.url("hq"))}
    assert answers["text"] == ("FAILED", "no room")
    assert answers["nothing"] == ("FAILED", "null")
    assert answers["undefined"] == ("FAILED", "undefined")
    assert answers["bare"] == ("FAILED", "what was thrown is no error, and has no text")
    assert answers["big"] == ("FAILED", "5")
    assert {answers[name][0] for name in ("number", "symbol")} == {"BAD_RESULT"}
    assert answers["fine"] == (None, None)
    assert answers["wrong"] == ("WRONG", "5")
    assert answers["large"][0] == "RESULT_TOO_LARGE"


async def test_a_call_that_was_given_up_before_it_was_sent_is_not_made(hq: Network, tmp_path: Path) -> None:
    source = """
    const [client, other] = [await connect(url), await connect(url)];
    const calls = [];
    const server = await new Rpc(other).serve("stock", { level: ({ number }) => calls.push(number) });
    const rpc = new Rpc(client, { timeout: 60_000 });
    say(await rpc.call("stock", "level", { number: 1 }));
    await told();
    while (client.state !== "not connected") await new Promise((resolve) => setTimeout(resolve, 10));
    say(await failed(rpc.call("stock", "level", { number: 2 }, { timeout: 100 })));
    await told();
    while (await rpc.call("stock", "level", { number: 3 }).catch(() => true) === true);
    say(calls);
    rpc.close();
    say(await failed(rpc.call("stock", "level", {})));
    await server.close();
    await other.close();
    await client.close();
    """
    async with running(tmp_path, source, hq.url("hq")) as program:
        assert await program.says() == 1
        hq.kill("hq")
        program.tell("on")
        assert (await program.says())["name"] == "CallGivenUp"
        await hq.start("hq")
        program.tell("on")
        assert set(await program.says()) == {1, 3}
        assert (await program.says())["name"] == "ReplyLost"
        assert await program.ended() == 0


async def test_a_server_that_is_killed_leaves_its_request_to_the_next(hq: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url);
    const server = await new Rpc(client).serve("stock", {
      async level({ article }) {
        say(article);
        if (words[0] === "hangs") await told();
        return words[0];
      },
    });
    say("serves");
    await server.over;
    """
    async with (
        running(tmp_path, source, hq.url("hq"), "hangs") as first,
        connect(hq.url("hq")) as client,
        Rpc(client, timeout=60) as rpc,
    ):
        assert await first.says() == "serves"
        calls = [asyncio.create_task(rpc.call("stock", "level", article=number)) for number in range(4)]
        assert sorted([await first.says() for _ in range(4)]) == [0, 1, 2, 3]
        async with running(tmp_path, source, hq.url("hq"), "answers") as second:
            assert await second.says() == "serves"
            first.process.kill()
            assert await asyncio.gather(*calls) == ["answers"] * 4


async def test_of_several_addresses_the_next_is_tried(tree: Network, tmp_path: Path) -> None:
    source = """
    const connected = [];
    const onConnected = (node) => connected.push(node);
    const client = await connect([url, ...words], { session: "till", onConnected });
    const reading = client.subscribe("topic:prices/#");
    await reading.ready();
    say(client.node);
    (await reading.take({ timeout: 60_000 })).ack();
    say(connected);
    await client.close();
    """
    async with running(tmp_path, source, tree.url("york"), tree.url("north")) as program:
        assert await program.says() == "york"
        tree.kill("york")
        await tree.until("north", lambda status: "topic/local" in status["routes"], "read")
        await tree.send("hq", "topic:prices/tea", [b"1"])
        assert await program.says() == ["york", "north"]
        assert await program.ended() == 0


async def test_applications_prove_themselves(network: Network, tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("the word of the day")
    word.chmod(0o600)
    network.add("hq", http={"session_secret_file": str(word)})
    await network.start()
    source = """
    say(await failed(connect(url).then((client) => client.close())));
    const client = await connect(url, { secret: "the word of the day" });
    say(client.node);
    await client.close();
    """
    refused, node = await said(tmp_path, source, network.url("hq"))
    assert (refused["name"], refused["code"]) == ("SessionRefused", "NOT_LOGGED_IN")
    assert node == "hq"


async def test_nobody_there_is_said_with_the_address(tmp_path: Path) -> None:
    source = """
    say(await failed(connect(url, { timeout: 200 })));
    """
    (error,) = await said(tmp_path, source, "http://127.0.0.1:9")
    assert error["name"] == "ConnectFailed"
    assert "ws://127.0.0.1:9/session cannot be reached" in error["message"]


async def test_two_that_send_as_one_producer_are_told(hq: Network, tmp_path: Path) -> None:
    source = """
    const client = await connect(url, { session: "till", producer: "sales" });
    await client.create("a");
    await client.sendMany("queue:a", ["1", "2", "3"]);
    say(client.committed);
    await client.close();
    const again = await connect(url, { session: "till", producer: "sales" });
    say(again.committed);
    await again.send("queue:a", "4");
    say(again.committed);
    await again.close();
    """
    assert await said(tmp_path, source, hq.url("hq")) == [3, 3, 4]
    async with connect(hq.url("hq")) as client:
        got: list[bytes] = []
        async for delivery in client.subscribe("queue:a"):
            got.append(delivery.payload)
            if len(got) == 4:
                break
        await until_count(got, 4)
    assert got == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("program", "printed"), list(zip(PROGRAMS, PRINTED, strict=True)), ids=range(len(PRINTED))
)
async def test_the_programs_of_the_page_print_what_they_should(
    hq: Network, tmp_path: Path, program: str, printed: str
) -> None:
    own = program.replace("http://127.0.0.1:7600", hq.url("hq"))
    exports = "const { Rpc, SendGivenUp, ServiceError, connect } = sapwood;\n"
    file = tmp_path / "page.mjs"
    file.write_text(f'import * as sapwood from "{LIBRARY}/src/index.js";\n{exports}{own}')
    process = await asyncio.create_subprocess_exec(
        *command(tmp_path), file, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output.decode()) == (0, printed)
