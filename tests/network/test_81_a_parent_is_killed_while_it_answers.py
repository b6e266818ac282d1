"""The parent has issued and is killed before its answer arrives: who asks again with the same key gets it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from harness import Network
from invitations import GENEROUS, Host, adopt, sapwood

from broker.cli.demo.plan import free_ports


class Swallowing:
    """A proxy that lets through what a parent answers, unless `swallows()`, asked of each piece, says no."""

    def __init__(self, target: int, swallows: Callable[[], Awaitable[bool]]) -> None:
        (self.port,) = free_ports(1)
        self._target = target
        self._swallows = swallows
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Swallowing":
        self._server = await asyncio.start_server(self._join, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(far_writer)
            pipes = [
                asyncio.create_task(self._up(reader, far_writer)),
                asyncio.create_task(self._down(far_reader, writer)),
            ]
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)
        except OSError:
            pass  # the parent is away
        finally:
            for end in ends:
                with contextlib.suppress(OSError):
                    end.transport.abort()
            self._tasks.discard(task)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not await self._swallows():
                writer.write(data)


async def test_the_same_key_is_answered_after_a_kill(network: Network) -> None:
    hq = Host(network, "hq")
    await hq.start(lifetime="1h")
    swallowed = asyncio.Event()

    async def swallows() -> bool:
        """The first answer that comes after the invitation was used is the certificate."""
        if not swallowed.is_set():
            listed = (await hq.ask("/api/invitations"))["invitations"]
            if [each["state"] for each in listed] == ["used"]:
                swallowed.set()
                return True
        return False

    async with Swallowing(network.ports["hq"], swallows) as line:
        token = await hq.invite("york", uris=[f"wss://127.0.0.1:{line.port}/link"])
        folder = network.folder / "york"
        words = ("join", token, "--dir", str(folder), "--patience", str(2 * GENEROUS))
        joining = asyncio.ensure_future(sapwood(*words))
        async with asyncio.timeout(GENEROUS):
            await swallowed.wait()
        assert not (folder / "york.yaml").exists()
        network.kill("hq")
        await hq.launch()
        code, said = await joining
        assert code == 0, said
        assert "trying again" in said
        adopt(network, "york", folder)
        await network.launch("york")
        await network.nodes.until_linked("york", GENEROUS)
        await network.stop("york")
