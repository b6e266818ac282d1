"""The link-level protocol, by plain sockets: what deployed clients do and must find working."""

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from broker.http import verbs
from broker.shares import Shares

NAME = "a b/c%+@ü"


async def logged_in(port: Any, token: str = "till-7") -> Any:
    client = await port.dial()
    assert (await client.ask(f"/login/{token}")).status == 200
    return client


async def reading(port: Any, queue: str = "q") -> Any:
    client = await logged_in(port)
    assert (await client.ask(f"/create/{queue}")).status == 200
    assert (await client.ask(f"/subscribe/{queue}")).status == 200
    return client


async def test_success_is_200_with_an_empty_body_and_a_content_length(port: Any) -> None:
    client = await port.dial()
    requests = [
        ("/login/till-7", None),
        ("/create/q", None),
        ("/subscribe/q", None),
        ("/send/q/5", b"payload"),
        ("/ack/1", None),
    ]
    for path, body in requests:
        answer = await client.ask(path, method="POST" if body else "GET", body=body)
        assert answer.status == 200, path
        assert answer.body == (b"q" if path == "/create/q" else b"")
        assert "transfer-encoding" not in answer.headers


async def test_others_have_their_turns_while_queues_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.shares.SLICE", 0.0)
    line, answers = SimpleNamespace(gone=False), list[list[str]]()
    verbs._Listing(line, iter(["a", "", "b"]), Shares(), answers.append)  # type: ignore[arg-type]
    assert not answers
    await until(lambda: answers)
    assert answers == [["a", "b"]]
    line.gone = True
    verbs._Listing(line, iter(["a", "b"]), Shares(), answers.append)  # type: ignore[arg-type]
    for _ in range(50):
        await asyncio.sleep(0)
    assert answers == [["a", "b"]]


async def test_a_transient_queues_name_is_the_bare_body(port: Any) -> None:
    client = await logged_in(port)
    for path in ("/create", "/create/"):
        answer = await client.ask(path)
        assert answer.status == 200
        assert answer.body.decode() in port.node.switch.queues


async def test_the_transfers_json(port: Any) -> None:
    client = await reading(port)
    await client.ask("/send/q/0", method="POST", body="grün".encode())
    await client.ask("/send/q/18446744073709551615/reply%40here", method="POST", body=b"")
    await client.ask("/send/q/-3", method="POST", body=b"\xff\x00")
    answer = await client.ask("/transfer/-1/0")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert json.loads(answer.body) == {
        "messages": [
            [1, {"payload": "grün", "correlation_id": 0}],
            [2, {"payload": "", "correlation_id": 2**64 - 1, "reply_to": "reply@here"}],
            [
                3,
                {
                    "payload": base64.b64encode(b"\xff\x00").decode(),
                    "encoding": "base64",
                    "correlation_id": -3,
                },
            ],
        ]
    }


async def test_transfer_returns_what_is_above_ack_to_and_acknowledges_nothing(port: Any) -> None:
    client = await reading(port)
    for number in range(3):
        await client.ask(f"/send/q/{number}", method="POST", body=b"x")
    for _ in range(2):
        found = json.loads((await client.ask("/transfer/1/0.0")).body)["messages"]
        assert [number for number, _ in found] == [2, 3]
    assert (await client.ask("/ack/2")).status == 200
    found = json.loads((await client.ask("/transfer/-1/0")).body)["messages"]
    assert [number for number, _ in found] == [1, 3]


async def test_a_transfer_waits_for_the_first_message(port: Any) -> None:
    reader, sender = await reading(port), await logged_in(port, "other")
    waiting = asyncio.create_task(reader.ask("/transfer/-1/30.5"))
    await until(lambda: port.node.switch.waiters)
    await sender.ask("/send/q/1", method="POST", body=b"late")
    answer = await waiting
    assert json.loads(answer.body)["messages"][0][1]["payload"] == "late"
    assert not port.node.switch.waiters


async def test_a_transfer_that_ends_empty(port: Any) -> None:
    client = await reading(port)
    assert json.loads((await client.ask("/transfer/-1/0.01")).body) == {"messages": []}
    assert not port.node.switch.waiters


async def test_one_message_wakes_one_waiter(port: Any) -> None:
    readers = [await reading(port) for _ in range(20)]
    waits = [asyncio.create_task(reader.ask("/transfer/-1/30")) for reader in readers]
    await until(lambda: len(port.node.switch.waiters) == 20)
    await (await logged_in(port)).ask("/send/q/1", method="POST", body=b"x")
    done, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == port.node.switch.woken == 1
    assert len(port.node.switch.waiters) == 19
    for task in rest:
        task.cancel()


@pytest.mark.parametrize("path", ["/create", "/create/q", "/subscribe/q", "/ack/1", "/transfer/-1/0"])
async def test_before_login_everything_is_403(port: Any, path: str) -> None:
    client = await port.dial()
    assert (await client.ask(path)).status == 403
    assert (await client.ask("/send/q/1", method="POST", body=b"x")).status == 403
    assert (await client.ask("/login/till-7")).status == 200
    assert (await client.ask("/create/q")).status == 200


async def test_what_is_not_here_is_404(serve: Any) -> None:
    client = await logged_in(await serve(subscribe_creates=False))
    assert (await client.ask("/subscribe/absent")).status == 404


async def test_to_subscribe_makes_what_is_not_here_and_says_so(port: Any) -> None:
    client = await logged_in(port)
    answer = await client.ask("/subscribe/absent")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["sapwood-note"].startswith("CREATED:")
    assert "sapwood-note" not in (await client.ask("/subscribe/absent")).headers


async def test_who_asks_is_told_that_a_queue_does_not_exist(port: Any) -> None:
    client = await logged_in(port)
    answer = await client.ask("/send/absent/1/back", method="POST", body=b"x", headers=("Sapwood-Tell: yes",))
    assert (answer.status, answer.body[:21]) == (404, b"QUEUE_DOES_NOT_EXIST:")
    assert (await client.ask("/send/absent/1/back", method="POST", body=b"x")).status == 200


async def test_less_than_a_millisecond_of_a_life_is_a_whole_one(port: Any) -> None:
    """As for all others who say how long a message lives: it lives no shorter than that."""
    client = await reading(port)
    await client.ask("/send/q/1", method="POST", body=b"x", headers=("Sapwood-Expires-In: 0.0012",))
    ((_, message),) = port.node.switch.queues["q"]
    assert message.properties.expires_in == 2


async def test_an_acknowledgement_of_what_is_not_here_is_200_with_a_note(port: Any) -> None:
    """An error would end the receiver of a deployed client, which acknowledges twice after a broken line."""
    client = await reading(port)
    await client.ask("/send/q/5", method="POST", body=b"payload")
    assert "sapwood-note" not in (await client.ask("/ack/1")).headers
    answer = await client.ask("/ack/1")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["sapwood-note"].startswith("NOT_FOUND:")


@pytest.mark.parametrize("wait", ["0", "0.01"])
async def test_an_empty_transfer_of_a_session_that_has_too_much_says_so(port: Any, wait: str) -> None:
    client = await reading(port)
    assert "sapwood-note" not in (await client.ask(f"/transfer/-1/{wait}")).headers
    port.node.switch.full = True
    answer = await client.ask(f"/transfer/-1/{wait}")
    assert (answer.status, answer.body) == (200, b'{"messages":[]}')
    assert answer.headers["sapwood-note"].startswith("TOO_MANY_UNACKNOWLEDGED:")


async def test_a_full_queue_is_429_with_that_word(port: Any) -> None:
    port.node.switch.quota = 1
    client = await logged_in(port)
    assert (await client.ask("/send/q/1", method="POST", body=b"x")).status == 200
    answer = await client.ask("/send/q/2", method="POST", body=b"x")
    assert answer.status == 429
    assert b"QUEUE_FULL" in answer.body


@pytest.mark.parametrize("written", ["a b%2Fc%+@ü", "a%20b%2Fc%25%2B%40%C3%BC", "a%20b%2fc%25+@ü"])
async def test_names_come_percent_encoded_or_bare(port: Any, written: str) -> None:
    client = await logged_in(port)
    answer = await client.ask(f"/create/{written}")
    assert answer.body.decode() == NAME
    assert (await client.ask(f"/send/{written}/1/{written}", method="POST", body=b"x")).status == 200
    assert port.node.switch.queues[NAME][0][1].properties.reply_to == NAME


async def test_a_get_may_say_that_its_body_is_empty(port: Any) -> None:
    client = await port.dial()
    assert (await client.ask("/login/t", body=b"")).status == 200
    assert (await client.ask("/create/q", body=b"")).status == 200


@pytest.mark.parametrize(
    "path",
    ["/ack/x", "/ack/1_0", "/ack/99999999999999999999", "/transfer/a/1", "/transfer/1/-1", "/transfer/1/nan"],
)  # fmt: skip
async def test_nonsense_is_400_and_says_what_was_expected(port: Any, path: str) -> None:
    client = await logged_in(port)
    answer = await client.ask(path)
    assert answer.status == 400
    assert b"BAD_REQUEST" in answer.body


async def test_a_payload_over_the_limit_is_413(serve: Any) -> None:
    port = await serve(max_message=1000)
    client = await logged_in(port)
    assert (await client.ask("/send/q/1", method="POST", body=b"x" * 1000)).status == 200
    assert (await client.ask("/send/q/1", method="POST", body=b"x" * 1002)).status == 413


async def test_a_closed_connection_leaves_its_session(port: Any) -> None:
    client = await logged_in(port)
    assert list(port.node.switch.tokens.values()) == ["till-7"]
    await client.close()
    await until(lambda: port.node.switch.closed)
    assert not port.node.switch.tokens


async def test_a_client_that_dies_while_it_waits_is_noticed(port: Any) -> None:
    client = await reading(port)
    client.writer.write(b"GET /transfer/-1/3000 HTTP/1.1\r\n\r\n")
    await until(lambda: port.node.switch.waiters)
    client.writer.transport.abort()
    await until(lambda: port.node.switch.closed)
    await until(lambda: not port.node.switch.waiters)


async def test_logging_in_again_on_a_connection_does_not_double_it(port: Any) -> None:
    client = await logged_in(port)
    assert (await client.ask("/login/till-7")).status == 200
    assert len(port.node.switch.tokens) == 1
    await client.close()
    await until(lambda: port.node.switch.closed)
    assert len(port.node.switch.closed) == 1


async def test_several_requests_in_one_go_are_answered_in_order(port: Any) -> None:
    client = await port.dial()
    client.writer.write(
        b"".join(f"GET /{p} HTTP/1.1\r\n\r\n".encode() for p in ("login/t", "create/a", "create/b"))
    )
    assert [(await client.answer()).body for _ in range(3)] == [b"", b"a", b"b"]


@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-origin",
        "Referer: http://evil.example/",
    ],
)
async def test_a_web_page_cannot_drive_the_node(port: Any, header: str) -> None:
    client = await logged_in(port)
    assert (await client.ask("/create/q", headers=(header,))).status == 403
    assert (await client.ask("/send/q/1", method="POST", body=b"x", headers=(header,))).status == 403
    assert not port.node.switch.queues


async def test_the_secret_goes_beside_the_token(serve: Any) -> None:
    port = await serve(secret="word")
    client = await port.dial()
    assert (await client.ask("/login/till-7")).status == 403
    assert (await client.ask("/login/till-7", headers=("Authorization: Bearer wrong",))).status == 403
    assert (await client.ask("/login/till-7", headers=("Authorization: Bearer word",))).status == 200


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For: 127.0.0.1", "Via: 1.1 proxy", "Host: 10.0.0.1", "CF-Ray: 1"]
)
async def test_without_proof_a_login_is_taken_from_this_machine_only(port: Any, header: str) -> None:
    answer = await (await port.dial()).ask("/login/till-7", headers=(header,))
    assert (answer.status, b"does not know who you are" in answer.body) == (403, True)
    assert not port.node.switch.tokens
    assert (await (await port.dial()).ask("/login/till-7")).status == 200


async def test_every_answer_leads_to_the_documentation(port: Any) -> None:
    client = await port.dial()
    for path in ("/login/t", "/ack/77", "/nothing/here", "/healthz"):
        answer = await client.ask(path)
        assert answer.headers["link"] == '</docs>; rel="help"', path
    page = await client.ask("/docs")
    assert b"/transfer/ACK_TO/SECONDS" in page.body
    assert b"from sapwood import connect" in page.body


async def test_a_token_is_in_no_log(port: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    client = await port.dial()
    await client.ask("/login/very-secret-token")
    await client.ask("/ack/77")
    await client.close()
    unreadable = await port.dial()
    unreadable.writer.write(b"GET /login/very-secret-token\x7f HTTP/9.9\r\nHost\r\n\r\n")
    assert (await unreadable.answer()).status == 400
    await until(lambda: port.node.switch.closed)
    assert "very-secret-token" not in caplog.text
