"""Every parameter of every operation of `/api` is given what nobody expects: it is refused or understood, and
never a fault of ours.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from intake_peers import running
from yarl import URL

ODD: Final = [
    "", "-1", "+1", "1_0", "\u0663", "1e9", "NaN", "inf", "9" * 20, "9" * 4500, "x" * 5000, "a\0b", "../..",
    "%00", "queue:", "topic:#", "[]", "null", "\U0001f642" * 300, "\udc80",
]  # fmt: skip
BODIES: Final = [
    b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000,
    b'{"count": -1, "limit": 1e400}',
]  # fmt: skip
_ENDLESS: Final = ("follow", "live")
_AWAY: Final = 504
"""Nobody knows the node that is asked for."""


def requests(description: dict[str, Any]) -> Iterator[tuple[str, URL, bytes | None]]:
    """Each operation with each odd value of each parameter, the others left out, and with each odd body."""
    for path, operations in description["paths"].items():
        for method, told in operations.items():
            if any(word in path for word in _ENDLESS):
                continue
            names = {each["name"]: each["in"] for each in told.get("parameters", [])}
            for name in names:
                for value in ODD:
                    yield method, asked(path, names, {name: value}), None
            if "requestBody" in told:
                yield from ((method, asked(path, names, {}), body) for body in BODIES)


def asked(path: str, names: dict[str, str], values: dict[str, str]) -> URL:
    for name, where in names.items():
        if where == "path":
            path = path.replace(
                f"{{{name}}}", quote(values.get(name, "q"), safe="", errors="surrogateescape")
            )
    query = {name: value for name, value in values.items() if names[name] == "query"}
    return URL(f"{path}?{urlencode(query, errors='surrogateescape')}", encoded=True)


async def test_what_nobody_expects_is_refused_or_understood(tmp_path: Path) -> None:
    found, faults = Counter[int](), []
    json = {"Content-Type": "application/json"}
    async with (
        running(tmp_path) as target,
        aiohttp.ClientSession(f"http://127.0.0.1:{target.port}") as session,
    ):
        async with session.get("/api/openapi.json") as answer:
            description = await answer.json()
        for method, url, body in requests(description):
            async with session.request(method, url, data=body, headers=json if body else None) as answer:
                found[answer.status] += 1
                if answer.status >= 500 and answer.status != _AWAY:
                    faults.append((method, str(url)[:200], answer.status, await answer.text()))
        assert not faults
        assert found[200] > 100
        assert found[400] > found[200]
        assert await target.process.stop() == 0
        assert "Traceback" not in target.log, target.log
