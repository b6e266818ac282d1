"""`mosquitto_sub` and `mosquitto_pub` as a store's applications: plain processes, killed by their ids.

with Listener(port, "prices/#", "-i", "till", "-q", "1") as till:
    publish(port, "prices/tea", b"9")
    await till.until(1)
"""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

_PATIENCE = 180.0
_LAST = "the/last/that/is/retained"


class Listener:
    """One `mosquitto_sub`. `options`: further ones of its command line."""

    def __init__(self, port: int, *arguments: str, version: str = "5") -> None:
        handle, name = tempfile.mkstemp(prefix="mosquitto-sub-")
        os.close(handle)
        self._file = Path(name)
        self._command = [
            "stdbuf",
            "-oL",
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-V",
            version,
            "-F",
            "%j",
            "-d",
        ]
        self._command += arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._kept = ""

    def __repr__(self) -> str:
        return f"<Listener {' '.join(self._command[9:])} got={len(self.got())}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        self._kept = self._text()
        self._file.unlink(missing_ok=True)

    def start(self) -> None:
        """Start it, or start it again; return when the broker knows it."""
        before = self._text().count("SUBACK")
        with self._file.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        deadline = time.monotonic() + _PATIENCE
        while self._text().count("SUBACK") == before:
            assert time.monotonic() < deadline, f"not subscribed: {self._text()[-500:]}"
            assert self._process.poll() is None, f"it has ended: {self._text()[-500:]}"
            time.sleep(0.01)

    def kill(self) -> None:
        """SIGKILL: the broker hears nothing from it."""
        self._end("kill")

    def stop(self) -> None:
        """SIGTERM: it says goodbye."""
        self._end("terminate")

    def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            getattr(process, how)()
            process.wait()

    def _text(self) -> str:
        return self._file.read_text(errors="replace") if not self._kept else self._kept

    def got(self) -> list[dict[str, Any]]:
        """The messages so far, as `mosquitto_sub` writes them (`%j`)."""
        whole, _, _ = self._text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines() if line.startswith('{"tst"')]

    def payloads(self) -> list[str]:
        return [message["payload"] for message in self.got()]

    async def until(self, count: int, seconds: float = _PATIENCE) -> list[dict[str, Any]]:
        """Wait for so many messages."""
        deadline = time.monotonic() + seconds
        while len(got := self.got()) < count:
            assert time.monotonic() < deadline, f"{len(got)} of {count} messages came: {got[-3:]}"
            await asyncio.sleep(0.02)
        return got

    async def until_the_last_is(self, payload: str, seconds: float = _PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while (got := self.payloads())[-1:] != [payload]:
            assert time.monotonic() < deadline, f"the last of {len(got)} that came: {got[-3:]}"
            await asyncio.sleep(0.02)


def publish(port: int, topic: str, payload: bytes, *options: str, version: str = "5", qos: int = 1) -> None:
    """One message by `mosquitto_pub`; returns when the broker has it."""
    command = [
        "mosquitto_pub",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-V",
        version,
        "-q",
        str(qos),
        "-t",
        topic,
    ]
    body = "-s" if payload else "-n"
    subprocess.run([*command, body, *options], input=payload, check=True, timeout=_PATIENCE)


def publish_lines(port: int, topic: str, payloads: list[bytes], *options: str, qos: int = 1) -> None:
    """Many messages over one connection."""
    command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-V", "5", "-q", str(qos), "-t", topic]
    subprocess.run(
        [*command, "-l", *options], input=b"\n".join(payloads) + b"\n", check=True, timeout=4 * _PATIENCE
    )


async def retains(port: int, topic: str, payload: str | None, seconds: float = _PATIENCE) -> None:
    """Wait until this is all that the broker gives to who comes now; None: nothing."""
    publish(port, _LAST, b"last", "-r")
    deadline = time.monotonic() + seconds
    expected = ["last"] if payload is None else [payload, "last"]
    while True:
        # The broker gives what it retains in the order of the filters.
        with Listener(port, "-t", topic, "-t", _LAST, "-q", "1", "--retained-only") as reader:
            await reader.until_the_last_is("last")
            if (given := reader.payloads()) == expected:
                return
        assert time.monotonic() < deadline, f"retained at {topic}: {given}, not {expected}"


async def joined(network: Any, *names: str) -> None:
    """Wait until these nodes know all consumers of their brokers."""
    for name in names:
        await network.until(
            name,
            lambda status: (
                status["site_broker"]["state"] == "running"
                and status["site_broker"].get("discovery") == "complete"
            ),
            "joined with its broker",
        )


async def knows(network: Any, name: str, *consumers: str) -> None:
    """Wait until a node knows exactly these destinations at its broker."""
    await network.until(
        name,
        lambda status: status["site_broker"]["consumers"] == sorted(consumers),
        f"knowing {' '.join(consumers) or 'no consumer'} at its broker",
    )


async def takes(network: Any, name: str, text: str) -> None:
    """Wait until a node is subscribed to this filter at its broker."""
    await network.until(
        name, lambda status: text in status["site_broker"].get("taking", ()), f"taking {text}"
    )
