"""Applications from elsewhere prove who they are, whatever they speak; an account does what its patterns say.

Another machine is a connection to an address of this one that is no loopback address, where that is possible;
else a proxy on this machine, which says so in its headers.
"""

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import paho.mqtt.client as paho
import pytest
from commands import ran
from harness import PATIENCE, Network
from invitations import Host, sapwood
from paho.mqtt.enums import CallbackAPIVersion

from broker.cli.demo.plan import free_ports
from broker.enrolment.joining import join
from broker.entrance.passwords import hashed
from sapwood import RequestFailed, SendRejected, SessionRefused, connect
from sapwood.protocol.destinations import parse
from sapwood.protocol.session_frames import (
    VERSION,
    Failed,
    Login,
    Welcome,
    decode_node_packet,
    encode_packet,
)

FAR = {"X-Forwarded-For": "192.0.2.7"}
ACCOUNTS = [
    {"name": "till", "consume": ["prices/#"], "send": ["sales/#", "queue:orders"]},
    {"name": "office", "consume": ["#"], "send": ["#"]},
]


def words(folder: Path) -> str:
    """The table of the accounts' hashed passwords: of each its name, twice."""
    file = folder / "accounts"
    lines = [f"{name} {hashed(2 * name + '-word')}\n" for name in ("till", "office")]
    file.write_text("# accounts\n" + "".join(lines))
    file.chmod(0o600)
    return str(file)


def password(name: str) -> str:
    return 2 * name + "-word"


def basic(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password(name)}".encode()).decode()


async def said(url: str, frame: Login, context: ssl.SSLContext | None = None, **headers: str) -> Any:
    """The node's first answer to a login on a streaming session."""
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/session", headers=headers, ssl=context or True) as opened,
    ):
        await opened.send_bytes(encode_packet([frame]))
        return decode_node_packet((await opened.receive(PATIENCE)).data)[0]


async def logged_in(url: str, context: ssl.SSLContext | None = None, **headers: str) -> int:
    """The status of a login by verb."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{url}/login/stranger", headers=headers, ssl=context or True) as answer,
    ):
        return answer.status


class Application:
    """An MQTT client, unmodified. `codes`: what it was told of its CONNECT."""

    def __init__(
        self,
        port: int,
        name: str,
        word: str | None = None,
        user: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, reconnect_on_failure=False)
        if context is not None:
            self.client.tls_set_context(context)
        if word is not None:
            self.client.username_pw_set(user or name, word)
        loop = asyncio.get_running_loop()
        self.codes: asyncio.Queue[int] = asyncio.Queue()
        self.granted: asyncio.Queue[list[int]] = asyncio.Queue()
        self.lost = asyncio.Event()
        self.client.on_connect = lambda _c, _u, _f, code, _p: loop.call_soon_threadsafe(
            self.codes.put_nowait, code.value
        )
        self.client.on_subscribe = lambda _c, _u, _m, codes, _p: loop.call_soon_threadsafe(
            self.granted.put_nowait, [code.value for code in codes]
        )
        self.client.on_disconnect = lambda *_: loop.call_soon_threadsafe(self.lost.set)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    async def code(self) -> int:
        return await asyncio.wait_for(self.codes.get(), PATIENCE)

    async def read(self, pattern: str) -> list[int]:
        self.client.subscribe(pattern, 1)
        return await asyncio.wait_for(self.granted.get(), PATIENCE)

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
async def guarded(network: Network) -> dict[str, int]:
    """HQ with two accounts, and a door for MQTT; the ports by protocol."""
    (mqtt,) = free_ports(1)
    network.add("hq", accounts=ACCOUNTS, account_passwords=words(network.folder), mqtt={"port": mqtt})
    await network.start("hq")
    return {"http": network.ports["hq"], "mqtt": mqtt}


async def test_an_account_does_what_its_patterns_say_in_every_protocol(
    network: Network, guarded: dict[str, int]
) -> None:
    url = network.url("hq")
    async with connect(url, session="a", account="office", password=password("office")) as office:
        await office.create("prices/york")
        await office.create("secret")
        async with connect(url, session="a", account="till", password=password("till")) as till:
            await till.send("topic:sales/york", b"sold")
            await till.send("queue:orders", b"bread")
            mine = await till.create()
            await till.subscribe(f"queue:{mine}").ready()
            await till.send("queue:orders", b"milk", reply_to=mine)
            await till.subscribe("topic:prices/#").ready()
            await till.subscribe("queue:prices/york").ready()
            for what in ("topic:prices/york", "queue:secret", "queue:orders@elsewhere", "topic:salesman"):
                with pytest.raises(SendRejected, match="PERMIT: hq lets till send"):
                    await till.send(what, b"forged")
            with pytest.raises(SendRejected, match="place for an answer"):
                await till.send("queue:orders", b"answer there", reply_to="queue:secret")
            for what in ("topic:#", "topic:sales/#", "queue:secret", "queue:orders"):
                with pytest.raises(RequestFailed, match="PERMIT: hq lets till consume"):
                    await till.subscribe(what).ready()
            with pytest.raises(RequestFailed, match="PERMIT"):
                await till.create("somebody-else")
    await verbs_of_the_till(url)
    await mqtt_of_the_till(guarded["mqtt"])
    sessions = network.nodes["hq"].log.read_text()
    assert "-word" not in sessions


async def verbs_of_the_till(url: str) -> None:
    """The same account, by verb."""
    login = {"Authorization": basic("till")}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http:

        async def ask(method: str, path: str, **more: Any) -> tuple[int, str]:
            async with http.request(method, url + path, **more) as answer:
                return answer.status, await answer.text()

        assert await ask("GET", "/login/t", headers=login) == (200, "")
        assert await ask("POST", "/send/orders/1", data=b"x") == (200, "")
        assert await ask("GET", "/subscribe/prices%2Fyork") == (200, "")
        for method, path in (
            ("POST", "/send/secret/1"),
            ("POST", "/send/topic:prices%2Fyork/1"),
            ("POST", "/send/orders/1/secret"),
            ("GET", "/subscribe/secret"),
            ("GET", "/subscribe/orders"),
            ("GET", "/create/somebody-else"),
            ("GET", "/trace/-1/0"),
            ("GET", "/destroy/secret"),
        ):
            status, text = await ask(method, path, data=b"x" if method == "POST" else None)
            assert (status, "REFUSED" in text) == (403, True), path
        assert await ask("GET", "/create/orders") == (200, "orders")
        assert await ask("GET", "/destroy/orders") == (200, "")
        assert "settings" not in json.loads((await ask("GET", "/", headers=FAR))[1])
        office = {"Authorization": basic("office")}
        assert (await ask("GET", "/login/t", headers=office))[0] == 400


async def mqtt_of_the_till(port: int) -> None:
    """The same account, by MQTT. Another account with the same client id does not take its place."""
    till = Application(port, "counter", password("till"), user="till")
    assert await till.code() == 0
    office = Application(port, "counter", password("office"), user="office")
    assert await office.code() == 0
    assert await till.read("prices/#") == [1]
    for pattern in ("#", "sales/#", "$share/g/queue/secret"):
        assert await till.read(pattern) == [0x80]
    till.client.publish("sales/york", b"x", 1).wait_for_publish(PATIENCE)
    till.client.publish("prices/york", b"forged", 1)
    await asyncio.wait_for(till.lost.wait(), PATIENCE)
    assert not office.lost.is_set()
    for each in (till, office):
        each.end()


async def test_where_there_are_accounts_nobody_gets_in_without_one(
    network: Network, guarded: dict[str, int]
) -> None:
    url, mqtt = network.url("hq"), guarded["mqtt"]
    for wrong in ({}, {"account": "till", "password": "guess"}, {"account": "nobody", "password": "guess"}):
        with pytest.raises(SessionRefused) as refused:
            await connect(url, **wrong).open()
        assert refused.value.code == "NOT_LOGGED_IN"
    with pytest.raises(SessionRefused):
        await connect(url, secret=password("till")).open()
    assert await logged_in(url) == 403
    assert await logged_in(url, Authorization="Basic dGlsbDpndWVzcw==") == 403
    for word, user in ((None, ""), ("guess", "till"), (password("till"), "office")):
        stranger = Application(mqtt, "stranger", word, user)
        assert await stranger.code() != 0
        stranger.end()
    status = await network.status("hq")
    assert status["applications"]["failed_logins"] == {"session": 4, "http": 2, "mqtt": 3}
    assert status["sessions"] == 0
    log = network.nodes["hq"].log.read_text()
    assert "127.0.0.1" in log
    assert "an application (mqtt) was refused" in log
    assert "guess" not in log


async def test_an_account_that_is_taken_away_is_out_at_once(
    network: Network, guarded: dict[str, int]
) -> None:
    url = network.url("hq")
    till = await connect(url, account="till", password=password("till")).open()
    await till.subscribe("topic:prices/#").ready()
    counter = Application(guarded["mqtt"], "counter", password("till"), user="till")
    assert await counter.code() == 0
    table = Path(words(network.folder))
    table.write_text("".join(line for line in table.read_text().splitlines(True) if "till" not in line))
    network._settings["hq"]["accounts"] = ACCOUNTS[1:]
    network.configure("hq")
    os.kill(network.nodes["hq"].pid, signal.SIGHUP)
    await asyncio.wait_for(counter.lost.wait(), PATIENCE)
    counter.end()
    await network.until("hq", lambda status: status["sessions"] == 0, "out")
    with pytest.raises(SessionRefused, match="wrong account or password"):
        await till.send("queue:orders", b"too late")
    await till.close(wait=False)


def own_address() -> str:
    """An address of this machine that is no loopback one; '' if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


async def test_at_the_documented_zero_touch_hq_a_stranger_neither_publishes_nor_reads(
    network: Network,
) -> None:
    """Encrypted is not proven: over TLS, from another address, by stream and by verb."""
    network.add("hq", listener={"host": "0.0.0.0"})
    hq = Host(network, "hq")
    await hq.start(lifetime="1h")
    folder = network.folder / "york"
    await join(await hq.invite("york"), folder)
    async with hq.client() as near:
        await near.send("queue:orders", b"of the chain")
    trusting = ssl.create_default_context(cafile=str(hq.ca))
    trusting.check_hostname = False
    far = own_address()
    assert far, "this machine has no address but the loopback one"
    url = f"https://{far}:{network.ports['hq']}"
    login = Login(VERSION, "stranger")
    for where, headers in ((url, {}), (hq.url, FAR)):
        answer = await said(where, login, trusting, **headers)
        assert isinstance(answer, Failed)
        assert answer.code == "NOT_LOGGED_IN"
        assert await logged_in(where, trusting, **headers) == 403
    with pytest.raises(SessionRefused):
        await connect(url, tls=trusting).open()
    node = str(folder / "tls" / "node.pem")
    known = ssl.create_default_context(cafile=str(hq.ca))
    known.check_hostname = False
    known.load_cert_chain(node)
    assert isinstance(await said(url, login, known), Welcome)
    assert await logged_in(url, known) == 200
    code, text = await sapwood("receive", "queue:orders", "--url", url, "--ca", str(hq.ca))
    assert code != 0, text
    await hq.ask("/api/invitations/york", "DELETE")
    answer = await said(url, login, known)
    assert (answer.code, "revoked" in answer.text) == ("NOT_LOGGED_IN", True)
    assert await logged_in(url, known) == 403
    async with hq.client() as near:
        async with asyncio.timeout(PATIENCE):
            await near.create("orders")
            async for delivery in near.subscribe("queue:orders"):
                assert delivery.payload == b"of the chain"
                break


async def test_a_store_s_certificate_opens_what_its_permits_allow_and_ends_with_them(
    network: Network,
) -> None:
    hq = Host(network, "hq")
    (mqtt,) = free_ports(1)
    network.add("hq", permits={"consume": ["prices/#"], "send": ["sales/#"]}, mqtt={"port": mqtt})
    await hq.start(lifetime="1h")
    folder = network.folder / "york"
    await join(await hq.invite("york"), folder)
    node = str(folder / "tls" / "node.pem")
    async with hq.client() as near:
        await near.create("orders")
    thief = await connect(hq.url, ca=str(hq.ca), certificate=node).open()
    await thief.send("topic:sales/york", b"sold")
    await thief.subscribe("topic:prices/#").ready()
    with pytest.raises(SendRejected, match="PERMIT: hq lets york send"):
        await thief.send("topic:prices/bath", b"1 penny")
    for what in ("queue:orders", "topic:#", "topic:sales/#"):
        with pytest.raises(RequestFailed, match="PERMIT: hq lets york consume"):
            await thief.subscribe(what).ready()
    shown = ssl.create_default_context(cafile=str(hq.ca))
    shown.load_cert_chain(node)
    counter = Application(mqtt, "counter", context=shown)
    assert await counter.code() == 0
    assert [await counter.read(each) for each in ("prices/#", "sales/#", "#")] == [[1], [0x80], [0x80]]
    await hq.ask("/api/invitations/york", "DELETE")
    await asyncio.wait_for(counter.lost.wait(), PATIENCE)
    counter.end()
    again = Application(mqtt, "counter", context=shown)
    assert await again.code() != 0
    again.end()
    async with asyncio.timeout(PATIENCE):
        while (await hq.ask("/api/status"))["sessions"]:
            await asyncio.sleep(0.05)
    with pytest.raises(SessionRefused, match="revoked"):
        await thief.send("topic:sales/york", b"once more")
    await thief.close(wait=False)


def kept(port: int) -> socket.socket:
    """Bound, so that nobody else is given it, but not listened at, so that a check finds it free."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


@pytest.mark.parametrize("mqtt", [False, True])
async def test_a_port_that_others_reach_does_not_open_without_a_word_about_applications(
    tmp_path: Path, mqtt: bool
) -> None:
    port, door = free_ports(2)
    settings: dict[str, Any] = {"name": "hq", "listener": {"host": "0.0.0.0", "port": port}}
    if mqtt:
        settings["mqtt"] = {"port": door}
    file = tmp_path / "hq.yaml"

    def write(**more: Any) -> None:
        file.write_text(json.dumps({"broker": {**settings, **more}}))

    with kept(port), kept(door):
        write()
        for command in ("run", "check"):
            code, text = await sapwood("node", command, str(file))
            assert code == 2, text
            for word in ("hq.yaml", "prove themselves", "'accounts'", "'session_secret_file'", "open"):
                assert word in " ".join(text.split()), (command, word)
        write(applications="open")
        code, told, _ = await ran("node", "check", file, "--json")
        findings = {each["subject"]: each for each in json.loads(told)["findings"]}
        assert (code, findings["applications"]["state"]) == (0, "warning")
        for proof in ({"applications": "local"}, {"http": {"session_secret_env": "PATH"}}):
            write(**proof)
            code, text = await sapwood("node", "check", str(file))
            assert code == 0, text


async def test_open_is_written_out_and_shown_as_a_warning(network: Network) -> None:
    network.add("hq", listener={"host": "0.0.0.0"}, applications="open")
    await network.start("hq")
    far = own_address()
    assert far, "this machine has no address but the loopback one"
    async with connect(f"http://{far}:{network.ports['hq']}") as stranger:
        await stranger.send("queue:orders", b"from anywhere")
    status = await network.status("hq")
    assert any(text.startswith("applications: open") for text in status["warnings"])
    assert status["applications"]["mode"] == "open"
    assert "! applications: open" in network.nodes["hq"].log.read_text()


async def test_guesses_are_slowed_down_by_address_and_others_are_not(
    network: Network, guarded: dict[str, int]
) -> None:
    """Thirty guesses at once: what is over the free ones and those that may wait is not even looked at."""
    url = network.url("hq")
    guesses = [said(url, Login(VERSION, "s", "guess", "", "till")) for _ in range(60)]
    answers = await asyncio.gather(*guesses)
    codes = [answer.code for answer in answers]
    assert set(codes) == {"NOT_LOGGED_IN", "BUSY"} or codes.count("NOT_LOGGED_IN") == 60
    more = await asyncio.gather(*(said(url, Login(VERSION, "s", "guess", "", "till")) for _ in range(60)))
    assert "BUSY" in [answer.code for answer in more]
    status = await network.status("hq")
    assert status["applications"]["failed_logins"]["session"] == 120


async def test_a_command_logs_in_with_an_account_whose_password_is_in_a_file(
    network: Network, guarded: dict[str, int]
) -> None:
    url, file = network.url("hq"), network.folder / "password"
    file.write_text(password("till") + "\n")
    file.chmod(0o600)
    given = ("--url", url, "--account", "till")
    code, text = await sapwood("send", "queue:orders", "bread", *given, "--password-file", str(file))
    assert code == 0, text
    code, text = await sapwood("send", "queue:secret", "bread", *given, "--password-file", str(file))
    assert (code, "PERMIT: hq lets till send" in text) == (1, True)
    code, text = await sapwood("send", "queue:orders", "bread", *given)
    assert (code, "--password-file" in text) == (2, True)
    async with connect(url, account="office", password=password("office")) as office:
        assert await office.create("orders") == "orders"
        subscription = office.subscribe(parse("queue:orders"))
        async with asyncio.timeout(PATIENCE):
            async for delivery in subscription:
                assert delivery.payload == b"bread"
                break


async def test_the_secret_s_sessions_and_an_account_s_are_never_one(network: Network) -> None:
    (mqtt,) = free_ports(1)
    secret = network.folder / "secret"
    secret.write_text("of the operator\n")
    secret.chmod(0o600)
    table = network.folder / "accounts"
    table.write_text(f"till {hashed(password('till'))}\nmqtt {hashed(password('mqtt'))}\n")
    table.chmod(0o600)
    http = {"session_secret_file": str(secret)}
    network.add("hq", account_passwords=str(table), mqtt={"port": mqtt}, http=http)
    await network.start("hq")
    url = network.url("hq")
    with pytest.raises(SessionRefused, match="of account till"):
        await connect(url, session="till/1", secret="of the operator").open()
    operator = Application(mqtt, "1", "of the operator")
    assert await operator.code() != 0
    operator.end()
    async with connect(url, session="1", account="mqtt", password=password("mqtt")) as app:
        with pytest.raises(SendRejected, match="PERMIT: hq lets mqtt send"):
            await app.send("queue:orders", b"not mine")
