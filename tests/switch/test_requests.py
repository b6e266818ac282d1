"""What goes over the wire: shapes of answers, names, numbers, framings, mistakes."""

import base64
import json
import time
from typing import Any

import pytest
from plain import payloads

from sapwood import RequestFailed, SendRejected, SessionRefused, connect

ODD_NAMES = [
    "a b",
    "50%",
    "a%41",
    "q?x=1&y",
    "x#y",
    "grün-é-日本",
    "a+b",
    "~tilde",
    "semi;colon",
    "..",
    "a&b='\"<>",
]


def quoted(name: str) -> str:
    """Every byte that is no letter or digit, percent-encoded."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in name.encode()
    )


def test_success_is_200_and_empty(here: Any) -> None:
    link = here.link()
    for path, body in (
        ("/login/t", None),
        ("/subscribe/empty", None),
        ("/send/empty/1", b"p"),
        ("/ack/{}", None),
    ):
        if path == "/subscribe/empty":
            assert link.ask("/create/empty").body == b"empty"
        if path == "/ack/{}":
            path = path.format(link.transfer(-1, 10)[0][0])
        answer = link.ask(path, body)
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0"), path


def test_the_messages_of_a_transfer(here: Any) -> None:
    link = here.session("shapes")
    link.read("shapes")
    link.send("shapes", 'grün \0 "quoted" ☃'.encode(), 0)
    link.send("shapes", b"", 2**63 - 1, "back")
    link.send("shapes", b"\xff\xfe\x00", 2**64 - 1, "back%40there")
    link.send("shapes", b"x", -(2**63))
    found = [link.transfer(-1, 10)]
    while len(found[-1]) < 4:
        found.append(link.transfer(-1, 0))
    texts = [message for _, message in found[-1]]
    assert texts == [
        {"payload": 'grün \0 "quoted" ☃', "correlation_id": 0},
        {"payload": "", "correlation_id": 2**63 - 1, "reply_to": "back"},
        {
            "payload": base64.b64encode(b"\xff\xfe\x00").decode(),
            "encoding": "base64",
            "correlation_id": 2**64 - 1,
            "reply_to": "back@there",
        },
        {"payload": "x", "correlation_id": -(2**63)},
    ]


def test_a_transfer_with_nothing_to_give(here: Any) -> None:
    link = here.session("nothing")
    for path in (
        "/transfer/-1/0",
        "/transfer/0/0.0",
        "/transfer/9223372036854775807/0.05",
        "/transfer/-1/.01",
    ):
        answer = link.ask(path)
        assert (answer.status, answer.body) == (200, b'{"messages":[]}')
        assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_bare_or_percent_encoded_are_the_same(here: Any, name: str) -> None:
    link = here.session("names")
    bare, encoded = name.encode(), quoted(name).encode()
    if name == "a%41":  # written bare, this is an encoded name
        bare = encoded
    assert link.well(b"/create/" + bare) == name
    assert link.well(b"/create/" + encoded) == name
    assert link.well(b"/subscribe/" + bare) == ""
    assert link.well(b"/send/" + encoded + b"/1/" + bare, b"x") == ""
    ((number, message),) = link.transfer(-1, 10)
    assert message["reply_to"] == name
    link.ack(number)


def test_names_with_slashes(here: Any) -> None:
    link = here.session("slashes")
    assert link.create("a%2Fb") == "a/b"
    link.subscribe("a/b")
    link.send("a%2fb", b"encoded", 5, "c%2Fd")
    assert link.well("/send/a/b/6/c/d", b"bare") == ""
    found = link.transfer(-1, 10)
    found += link.transfer(found[-1][0], 10) if len(found) < 2 else []
    assert [(m["payload"], m["correlation_id"], m["reply_to"]) for _, m in found] == [
        ("encoded", 5, "c/d"),
        ("bare", 6, "c/d"),
    ]
    assert link.well("/send/a/b/7", b"shortest") == ""
    ((_, message),) = link.transfer(found[-1][0], 10)
    assert (message["payload"], message["correlation_id"]) == ("shortest", 7)


@pytest.mark.parametrize("path", ["/send/amb/5/6", "/send/amb/5/b/6", "/send/amb/5/b/6/c", "/send/a/b/7/8"])
def test_a_bare_name_that_may_be_another_is_refused(here: Any, path: str) -> None:
    link = here.session("ambiguous")
    link.read("amb")
    answer = link.ask(path, b"x")
    assert (answer.status, answer.text[:12]) == (400, "BAD_REQUEST:")
    assert link.transfer(-1, 0) == []
    assert link.well("/send/amb/5/queue:6", b"x") == ""
    ((number, message),) = link.transfer(-1, 10)
    assert (message["correlation_id"], message["reply_to"]) == (5, "queue:6")
    link.ack(number)


def test_queues_are_listed_by_prefix(here: Any) -> None:
    link = here.session("lister")
    for name in ("list%2Fb", "list%2Fa", "other-list"):
        link.create(name)
    link.subscribe("list%2Fb")
    assert json.loads(link.well("/list/list/")) == ["list/a", "list/b"]
    assert json.loads(link.well("/list/list%2Fb")) == ["list/b"]
    assert json.loads(link.well("/list/alive/list")) == ["list/b"]
    mailbox = link.create().partition("@")[0]
    assert json.loads(link.well(f"/list/{mailbox}")) == [mailbox]
    assert json.loads(here.session("another").well(f"/list/{mailbox}")) == []


def test_a_queue_is_destroyed_by_who_may_make_it(here: Any) -> None:
    link, other = here.session("destroyer"), here.session("bystander")
    link.read("doomed")
    link.send("doomed", b"lost with it")
    assert link.ask("/destroy/doomed").status == 200
    assert json.loads(link.well("/list/doomed")) == []
    assert link.transfer(-1, 0) == []
    again = link.ask("/destroy/doomed")
    assert (again.status, again.note[:10]) == (200, "NOT_FOUND:")
    link.read("doomed")
    assert link.transfer(-1, 0) == []
    mailbox = link.create()
    assert other.ask(f"/destroy/{mailbox}").status == 403
    assert link.ask(f"/destroy/{mailbox}").status == 200
    assert json.loads(link.well("/list/transient")) == []


@pytest.mark.parametrize(("header", "home"), [("Sapwood-Home: yes", True), ("Sapwood-Home: no", False)])
def test_a_queue_may_be_made_at_home_here(here: Any, header: str, home: bool) -> None:
    link = here.session("homely")
    assert link.ask(f"/create/home-{home}", None, header).status == 200
    (queue,) = [each for each in here.status()["queues"] if each["name"] == f"queue:home-{home}"]
    assert queue["home"] is home


def test_a_verb_with_a_query_is_none(here: Any) -> None:
    link = here.session("queries")
    for path in ("/create?x=1", "/login?token=1", "/transfer?", "/subscribe?queue=a/b"):
        answer = link.ask(path)
        assert (answer.status, answer.text[:10]) == (404, "NOT_FOUND:"), path
    assert link.create("a?b") == "a?b"


def test_a_queue_may_be_named_with_this_node(here: Any) -> None:
    link = here.session("directed")
    link.read("directed")
    link.send("directed@hq", b"bare")
    link.send("directed%40hq", b"encoded")
    found = link.transfer(-1, 10)
    while len(found) < 2:
        found = link.transfer(-1, 10)
    assert sorted(payloads(found)) == ["bare", "encoded"]
    assert link.ask("/subscribe/directed@elsewhere").status == 404


def test_to_subscribe_makes_a_queue_that_is_not_there_and_says_so(here: Any) -> None:
    """Deployed clients subscribe before anybody has created, and end on an error."""
    link = here.session("early")
    answer = link.ask("/subscribe/not-made")
    assert (answer.status, answer.body, answer.note[:8]) == (200, b"", "CREATED:")
    assert link.ask("/subscribe/not-made").note == ""
    link.send("not-made", b"arrives")
    assert payloads(link.transfer(-1, 10)) == ["arrives"]


def test_a_node_may_be_told_to_make_no_queue_at_a_subscribe(make: Any) -> None:
    node = make(http={"subscribe_creates": False})
    link = node.session("early")
    answer = link.ask("/subscribe/not-made")
    assert (answer.status, answer.text[:10]) == (404, "NOT_FOUND:")
    assert link.create("not-made") == "not-made"
    link.subscribe("not-made")


def test_a_sender_may_ask_to_be_told_of_a_queue_that_does_not_exist(here: Any) -> None:
    link = here.session("asks")
    back = link.create()
    link.subscribe(back)
    tell = "Sapwood-Tell: yes"
    answer = link.ask(f"/send/never-made/7/{back}", b"x", tell)
    assert (answer.status, answer.text[:21]) == (404, "QUEUE_DOES_NOT_EXIST:")
    assert here.messages("never-made") == 0
    assert link.ask(f"/send/never-made/7/{back}", b"x").status == 200
    assert here.messages("never-made") == 1
    link.create("made-unread")
    assert link.ask(f"/send/made-unread/7/{back}", b"x", tell).status == 200
    assert here.messages("made-unread") == 1
    assert link.transfer(-1, 0) == []
    assert link.ask("/send/never-made-2/7", b"x", tell).status == 400


def test_a_sender_may_say_for_which_task_a_message_is(here: Any) -> None:
    link = here.session("works")
    link.subscribe(queue := link.create())
    assert link.ask(f"/send/{queue}/7", b"x", "Sapwood-Task: order%204%2F%C3%BC").status == 200
    ((_, message),) = link.transfer(-1, 0)
    assert (message["task_id"], "origin" in message) == ("order 4/ü", False)
    assert link.ask(f"/send/{queue}/7", b"x", f"Sapwood-Task: {'x' * 300_000}").status in (400, 413, 431)


def test_a_sender_may_say_how_long_a_message_lives(here: Any) -> None:
    link = here.session("hurries")
    link.subscribe(queue := link.create())
    for lifetime in ("0", "0.01", "30", "1e30"):
        said = f"Sapwood-Expires-In: {lifetime}"
        assert link.ask(f"/send/{queue}/7", lifetime.encode(), said).status == 200
    time.sleep(0.05)
    assert [message["payload"] for _, message in link.transfer(-1, 0)] == ["30", "1e30"]
    for wrong in ("-1", "soon", "nan", "inf"):
        answer = link.ask(f"/send/{queue}/7", b"x", f"Sapwood-Expires-In: {wrong}")
        assert (answer.status, answer.text) == (
            400,
            f"BAD_REQUEST: '{wrong}' is no number of seconds: expected a decimal, 0 or more",
        )


def test_a_get_may_have_an_empty_body_and_any_host(here: Any) -> None:
    link = here.link()
    assert link.ask("/login/t", None, "Content-Length: 0").status == 200
    for host in ("localhost", "127.0.0.1:7600", "[::1]:80", "LOCALHOST:1", "10.1.2.3"):
        assert link.ask("/create/hosts", None, f"Host: {host}").body == b"hosts"


def test_before_login_everything_is_403(here: Any) -> None:
    link = here.link()
    paths = (
        "/create",
        "/create/q",
        "/subscribe/q",
        "/ack/1",
        "/ack/x",
        "/transfer/-1/0",
        "/transfer/x/y",
        "/trace/-1/0",
    )
    for path in paths:
        assert link.ask(path).status == 403, path
    assert link.ask("/send/q/1", b"payload").status == 403
    assert link.ask("/send/q/1", b"").status == 403
    assert link.login("late").create("q") == "q"


def test_what_this_node_does_not_have_is_404(here: Any) -> None:
    link = here.session("absent")
    for path in ("/subscribe/absent@elsewhere", "/subscribe/transient-absent", "/nowhere", "/createx"):
        assert link.ask(path).status == 404, path
    for path in ("/ack/0", "/ack/123456789012345", "/ack/-5"):
        answer = link.ask(path)
        assert (answer.status, answer.text, answer.note[:10]) == (200, "", "NOT_FOUND:"), path


@pytest.mark.parametrize(
    "path",
    [
        "/ack/x",
        "/ack/1_0",
        "/ack/+1",
        "/ack/",
        "/ack/1/2",
        "/ack/18446744073709551616",
        "/transfer/a/1",
        "/transfer/1",
        "/transfer/1/-1",
        "/transfer/1/nan",
        "/transfer/1/inf",
        "/transfer/1/1/1",
        "/login/",
        "/create/a%00b",
        "/create/%FF",
        "/create/" + "x" * 256,
    ],
)
def test_mistakes_are_400_and_say_what_was_expected(here: Any, path: str) -> None:
    link = here.session("mistakes")
    answer = link.ask(path)
    assert answer.status == 400
    assert answer.body.startswith(b"BAD_REQUEST")
    assert link.create("still-here") == "still-here"


@pytest.mark.parametrize(
    "path", ["/send/q", "/send/q/x", "/send/q/", "/send/q/1_0/r", "/send//1", "/send/a@b@c/1"]
)
def test_mistaken_sends_are_400(here: Any, path: str) -> None:
    assert here.session("mistakes").ask(path, b"x").status == 400


def test_a_wrong_method_is_405(here: Any) -> None:
    link = here.session("methods")
    for path, body, method in (
        ("/create/q", b"", "POST"),
        ("/send/q/1", None, "GET"),
        ("/login/t", b"", "PUT"),
    ):
        answer = link.ask(path, body, method=method)
        assert answer.status == 405, path
        assert "allow" in answer.headers
    assert link.create("q") == "q"


def test_a_payload_over_the_limit_is_413_and_the_connection_goes_on(make: Any) -> None:
    node = make(limits={"max_message": "4KiB"})
    link = node.session("big")
    link.read("big")
    link.send("big", b"x" * 4096)
    answer = link.ask("/send/big/1", b"x" * 4097)
    assert (answer.status, answer.body[:9]) == (413, b"TOO_LARGE")
    assert link.ask("/send/big/1", b"x" * 3_000_000).status == 413
    assert [len(text) for text in payloads(link.transfer(-1, 10))] == [4096]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400),
        (b"GET /login/t HTTP/9.9\r\n\r\n", 400),
        (b"GET /login/t HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /send/q/1 HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"GET /login/" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /login/t HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET /login/t HTTP/1.1\r\n" + b"X: y\r\n" * 7000, 431),
    ],
)
def test_what_is_no_request_is_answered_and_ends_the_connection(here: Any, data: bytes, status: int) -> None:
    link = here.link()
    link.send_raw(data)
    answer = link.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert link.ended()


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/api/status", b"Authorization: Bearer \xff", 403),
        ("/api/status", b"Host: \xff", 403),
        ("/api/status", b"Origin: http://[", 403),
        ("/docs", b"Expect: \xff", 417),
        ("/login/t", b"Expect: a miracle", 417),
        ("/login/t", b"Authorization: Bearer \xff", 403),
        ("/session", b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: \xff", 426),
    ],
)
def test_odd_bytes_in_headers_are_answered_and_are_no_error_of_the_node(
    make: Any, monkeypatch: pytest.MonkeyPatch, path: str, header: bytes, status: int
) -> None:
    monkeypatch.setenv("WORD", "a-word-of-more-than-sixteen-letters")
    node = make(http={"token_env": "WORD", "session_secret_env": "WORD"})
    link = node.link()
    forwarded = b"X-Forwarded-For: 192.0.2.7" if path == "/api/status" else b"A: b"
    link.send_raw(b"GET %b HTTP/1.1\r\n%b\r\n%b\r\n\r\n" % (path.encode(), header, forwarded))
    assert link.answer().status == status


def test_requests_in_one_go_are_answered_in_order(here: Any) -> None:
    link = here.link()
    requests = [b"GET /login/piped HTTP/1.1\r\n\r\n", b"GET /create/piped HTTP/1.1\r\n\r\n"]
    requests += [b"GET /subscribe/piped HTTP/1.1\r\n\r\n"]
    for number in range(300):
        body = b"%d" % number
        head = b"POST /send/piped/%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (number, len(body))
        requests.append(head + body)
    requests.append(b"GET /transfer/-1/0 HTTP/1.1\r\n\r\n")
    requests.append(b"GET /ack/0 HTTP/1.1\r\n\r\n")
    requests.append(b"GET /healthz HTTP/1.1\r\n\r\n")
    requests.append(b"GET /create/last HTTP/1.1\r\n\r\n")
    link.send_raw(b"".join(requests))
    assert [link.answer().body for _ in range(303)] == [b"", b"piped", *[b""] * 301]
    assert payloads(link.mail()) == [str(number) for number in range(300)]
    assert [link.answer().status for _ in range(3)] == [200, 200, 200]


def test_bytes_may_come_one_at_a_time(here: Any) -> None:
    link = here.session("slow")
    link.read("slow")
    for byte in b"POST /send/slow/7 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello":
        link.send_raw(bytes([byte]))
    assert link.answer().status == 200
    assert payloads(link.transfer(-1, 10)) == ["hello"]


def test_an_http_1_0_client(here: Any) -> None:
    link = here.link()
    answer = link.ask("/login/old", None, "Connection: Keep-Alive", version="1.0")
    assert (answer.status, answer.headers["connection"]) == (200, "keep-alive")
    assert link.ask("/create/old", None, version="1.0").body == b"old"
    assert link.ended()


def test_a_client_that_says_close(here: Any) -> None:
    link = here.link()
    assert link.ask("/login/close", None, "Connection: close").headers["connection"] == "close"
    assert link.ended()


def test_a_body_may_be_announced(here: Any) -> None:
    link = here.session("expecting")
    link.send_raw(b"POST /send/expecting/1 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert link._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    link.send_raw(b"hello")
    assert link.answer().status == 200


def test_chunked_requests_and_pages_between_verbs(here: Any) -> None:
    """Whatever else a client does on its connection, it stays bound to its session."""
    link = here.session("mixed")
    link.read("mixed")
    assert link.ask("/healthz").status == 200
    link.send_raw(
        b"POST /send/mixed/1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    assert link.answer().status == 200
    assert payloads(link.transfer(-1, 10)) == ["abcde"]
    assert link.ask("/subscribe/absent@elsewhere").status == 404
    assert link.ask("/send/mixed/x", b"body").status == 400
    link.begin_transfer(10**18, 0.05)
    assert link.mail() == []
    other = here.link()
    assert other.ask("/healthz").status == 200
    assert other.ask("/create/q").status == 403
    assert other.login("mixed").create("q") == "q"


def test_every_answer_leads_to_the_documentation(here: Any) -> None:
    """`answer` checks each; these are all kinds that there are."""
    link = here.link()
    paths = (
        "/",
        "/docs",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/status",
        "/dashboard",
        "/nothing",
        "/session",
        "/link",
    )
    for path in paths:
        link.ask(path)
    assert link.ask("/docs", b"", method="PUT").status == 405
    page = link.ask("/docs").text
    for word in (
        "/login/",
        "/create",
        "/subscribe/",
        "/ack/",
        "/transfer/",
        "/trace/",
        "/send/",
        "QUEUE_FULL",
        "sapwood",
    ):
        assert word in page, word


def test_diagnostics_for_programs_and_the_dashboard_for_browsers(here: Any) -> None:
    link = here.link()
    found = json.loads(link.well("/"))
    assert (found["name"], found["documentation"], found["ready"]) == ("hq", "/docs", True)
    link.login("dumped").create("in-the-dump")
    found = json.loads(link.well("/"))
    assert "queue:in-the-dump" in [queue["name"] for queue in found["queues"]]
    assert found["dead"]["messages"] == here.status()["dead"]["messages"]
    assert {"version", "versions", "python", "system", "children", "counters", "settings"} <= set(found)
    assert "aiohttp" in found["versions"]
    assert "name: hq" in found["settings"]
    assert len(found["session_list"]) == found["sessions"] > 0
    assert "dumped" not in str(found["session_list"])
    browser = link.ask("/", None, "Accept: text/html,application/xhtml+xml,*/*;q=0.8", "Host: localhost")
    assert (browser.status, browser.headers["location"]) == (302, "/dashboard")


@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: same-origin",
        "Referer: http://evil.example/",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64)",
        "Host: evil.example:7600",
    ],
)
def test_a_web_page_in_a_visitors_browser_can_do_nothing(here: Any, header: str) -> None:
    link = here.link()
    assert link.ask("/login/victim", None, header).status == 403
    link.login("victim")
    for path in ("/create/stolen", "/subscribe/stolen", "/ack/1", "/transfer/-1/0", "/trace/-1/0"):
        assert link.ask(path, None, header).status == 403, path
    assert link.ask("/send/stolen/1", b"x", header).status == 403
    assert all("stolen" not in queue["name"] for queue in here.status()["queues"])


def test_what_is_sent_to_a_name_comes_to_who_reads_that_name(here: Any) -> None:
    link = here.session("kinds")
    assert link.well("/create/queue:kinds") == "kinds"
    link.well("/subscribe/queue:kinds")
    link.well("/send/queue:kinds/1", b"with")
    link.well("/send/kinds/2", b"without")
    assert sorted(payloads(link.transfer(-1, 10))) == ["with", "without"]
    for verb in ("create", "subscribe"):
        answer = link.ask(f"/{verb}/topic:kinds")
        assert answer.status == 400
        assert "topic" in answer.text


async def test_properties_that_no_node_would_read_are_refused_and_the_session_goes_on(make: Any) -> None:
    node = make()
    async with connect(f"http://127.0.0.1:{node.port}") as client:
        await client.create("till")
        with pytest.raises(SendRejected, match="TOO_LARGE"):
            await client.send("queue:till", b"", headers={"x": "x" * 300_000})
        await client.send("queue:till", b"small", headers={"x": "x" * 200_000})
        async for delivery in client.subscribe("queue:till"):
            assert delivery.payload == b"small"
            delivery.ack()
            break


async def test_a_clients_names_and_subscriptions_are_bounded(make: Any) -> None:
    node = make()
    url = f"http://127.0.0.1:{node.port}"
    with pytest.raises(SessionRefused, match="255 characters"):
        await connect(url, producer="p" * 256, timeout=5.0).open()
    async with connect(url) as client:
        for number in range(10_000):
            client.subscribe(f"topic:t/{number}")
        with pytest.raises(RequestFailed, match="10000 subscriptions already"):
            await client.subscribe("topic:one-more").ready()
