"""The library for OCaml at a node that speaks https alone: who is believed, calls, and a channel."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from harness import PATIENCE, Network
from test_29_tls import issue
from test_113_channels_in_ocaml import BESIDE, Program, closed, given_by, says, told

from sapwood import NobodyServes, Rpc, channels, connect

KINDS = pytest.mark.parametrize("kind", ["unix", "lwt"])


@asynccontextmanager
async def program(ocaml: Path, name: str, *words: str, ca: str = "") -> AsyncIterator[Program]:
    path = ocaml / "_build" / "default" / "programs" / f"{name}.exe"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    more = {"CA": ca} if ca else {}
    process = await asyncio.create_subprocess_exec(path, *words, **pipes, env=os.environ | BESIDE | more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def with_tls(network: Network, host: str) -> tuple[str, str]:
    """A node whose certificate is for this host: its address, and the file of the authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(network.folder / "servers.pem")
    network.add("hq", listener={"tls": issue(network.folder, authority, "hq", host)})
    await network.launch("hq")
    anybody = ssl.create_default_context(cafile=network.folder / "servers.pem")
    anybody.check_hostname = False
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", network.ports["hq"], ssl=anybody)
                break
            except OSError:
                await asyncio.sleep(0.05)
    await closed(writer)
    return f"https://127.0.0.1:{network.ports['hq']}", str(network.folder / "servers.pem")


@KINDS
async def test_calls_and_channels_go_over_tls(kind: str, network: Network, ocaml: Path) -> None:
    url, ca = await with_tls(network, "127.0.0.1")
    async with (
        connect(url, ca=ca) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
        program(ocaml, "library", kind, "serve", url, "echo", ca=ca) as server,
        program(ocaml, "library", kind, "lines", url, "echo", ca=ca) as caller,
        asyncio.timeout(PATIENCE),
    ):
        assert await says(server) == "serving"
        large = "ü" * 100_000
        assert await rpc.call("echo", "echo", text=large) == {"text": large}
        assert await told(caller, "ü") == ['{"line":"ü"}']
        async with program(ocaml, "ends", kind, "make", url, "queue:pictures", "60", ca=ca) as maker:
            with await channels.take(client, await given_by(client)) as taken:
                assert await told(maker, "write 5", "finish") == ["made", "written"]
                assert await asyncio.to_thread(taken.socket.recv, 9) == bytes(range(0, 35, 7))


async def test_a_node_that_is_not_believed_any_more_is_told_and_waited_for(
    network: Network, ocaml: Path
) -> None:
    """As one whose certificate has ended. The file of authorities is read again for each line, by the library
    for Python too.
    """
    url, ca = await with_tls(network, "127.0.0.1")
    async with (
        connect(url, ca=ca) as client,
        Rpc(client, timeout=PATIENCE) as rpc,
        program(ocaml, "library", "unix", "serve", url, "echo", ca=ca) as server,
        asyncio.timeout(PATIENCE),
    ):
        assert await says(server) == "serving"
        network.kill("hq")
        others = trustme.CA()
        issue(network.folder, others, "hq", "127.0.0.1")
        await network.launch("hq")
        assert server.stderr is not None
        said = ""
        while "certificate verify failed" not in said:
            said = (await server.stderr.readline()).decode()
            assert f"sapwood: ! the node at 127.0.0.1:{network.ports['hq']} cannot be reached: " in said
            assert said.endswith("; it is tried again\n")
        others.cert_pem.write_to_path(Path(ca))
        answer = None
        while answer is None:
            with suppress(NobodyServes):
                answer = await rpc.call("echo", "echo", text="x")
        assert answer == {"text": "x"}


@KINDS
@pytest.mark.parametrize(("host", "knows"), [("127.0.0.1", False), ("other.example.com", True)])
async def test_a_node_without_a_certificate_for_its_name_is_not_believed(
    kind: str, host: str, knows: bool, network: Network, ocaml: Path
) -> None:
    url, ca = await with_tls(network, host)
    async with (
        program(ocaml, "library", kind, "lines", url, "echo", ca=ca if knows else "") as caller,
        asyncio.timeout(PATIENCE),
    ):
        output, errors = await caller.communicate()
    assert output == b""
    assert b"certificate verify failed" in errors
    assert caller.returncode
