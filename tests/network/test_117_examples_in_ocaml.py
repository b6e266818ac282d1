"""The examples of docs/ocaml.md, run by utop as they stand there, at a real node."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness import PATIENCE, Network
from test_113_channels_in_ocaml import BESIDE, Program, given_by, says
from workspace import ROOT, environment

from sapwood import channels, connect

BLOCK = re.compile(r"^```ocaml\n(.*?)^```$", re.M | re.S)
MESSAGES, CALLS, SERVER, MAKE, TAKE = BLOCK.findall((ROOT / "docs" / "ocaml.md").read_text("utf-8"))
HEAD = '#require "sapwood.unix";;\nopen Sapwood_unix\n'
SHOW = 'let () = Printf.printf "level %s\\n%!" level\n'
GIVEN = """
let _ = Session.create session ~queue:"given"
let () = Session.subscribe session "given"
let () = print_endline "subscribed"
let message = List.hd (Session.transfer session ~ack_to:(-1L) ~seconds:60.)
let _ = Unix.write_substring (take message) "taken" 0 5
"""


@asynccontextmanager
async def utop(folder: Path, ocaml: Path, network: Network, *texts: str) -> AsyncIterator[Program]:
    script = folder / "example.ml"
    script.write_text((HEAD + "\n".join(texts)).replace("http://127.0.0.1:7600", network.url("hq")), "utf-8")
    library = {"CAML_LD_LIBRARY_PATH": str(ocaml / "_build" / "install" / "default" / "lib" / "stublibs")}
    process = await asyncio.create_subprocess_exec(
        *("utop", script),
        stdout=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env=os.environ | environment(ocaml) | library | BESIDE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def folder(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


async def test_messages_and_calls(network: Network, ocaml: Path, tmp_path: Path) -> None:
    network.add("hq")
    await network.start()
    calls = (MESSAGES, CALLS.replace("5.", "60."), SHOW)
    async with utop(folder(tmp_path, "server"), ocaml, network, SERVER):
        await network.until("hq", lambda status: "stock" in str(status["queues"]), "read by the server")
        async with utop(folder(tmp_path, "caller"), ocaml, network, *calls) as caller:
            assert await says(caller) == "milk 46"
            assert await says(caller) == "level 12"
            assert await asyncio.wait_for(caller.wait(), PATIENCE) == 0


async def test_channels(network: Network, ocaml: Path, tmp_path: Path) -> None:
    network.add("hq")
    await network.start()
    async with (
        connect(network.url("hq")) as client,
        utop(folder(tmp_path, "maker"), ocaml, network, MAKE, TAKE, GIVEN) as program,
    ):
        with await channels.take(client, await given_by(client)) as taken:
            assert await asyncio.to_thread(taken.socket.recv, 9) == b"a picture"
            assert await asyncio.to_thread(taken.socket.recv, 9) == b""
        assert await says(program) == "subscribed"
        made, given = await channels.make(client)
        with made:
            await client.send("queue:given", given.to_json())
            assert await says(program) == "unix"
            assert await asyncio.to_thread(made.socket.recv, 5) == b"taken"
        assert await asyncio.wait_for(program.wait(), PATIENCE) == 0
