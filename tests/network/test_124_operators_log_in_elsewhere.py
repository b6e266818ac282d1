"""Operators with tokens of an issuer: by role, in the trail, over new keys and while the issuer is away."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from commands import sapwood
from harness import PATIENCE, Network
from quick import QUICK_SITE
from token_issuer import IssuerProcess, Signer

from broker.entrance.id_tokens import LEEWAY

ROLES = [
    {"name": "till-staff", "role": "viewer"},
    {"name": "chain operators", "role": "operator"},
    {"name": "chain-admins", "role": "administrator"},
]


@pytest.fixture
async def issuer(tmp_path: Path, unused_tcp_port: int) -> AsyncIterator[IssuerProcess]:
    made = IssuerProcess(tmp_path / "issuer", unused_tcp_port)
    yield made
    made.stop()


async def asked(
    network: Network, token: str, path: str = "/api/status", method: str = "GET", body: Any = None
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, network.url("hq") + path, json=body) as answer,
    ):
        return answer.status, json.loads(await answer.read())


async def until(network: Network, token: str) -> None:
    """Ask until the token lets in: keys may just have been fetched, and are not again at once."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if (await asked(network, token))[0] == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def test_tokens_of_an_issuer_open_by_role_and_its_keys_change(
    network: Network, issuer: IssuerProcess, tmp_path: Path
) -> None:
    rsa, ec, third = Signer("rsa"), Signer("ec", "ES256"), Signer("third", "ES384")
    issuer.publish(rsa)
    network.add("hq", oidc={"issuer": issuer.url, "audience": "sapwood", "roles": ROLES}, **QUICK_SITE)

    def token(signer: Signer, *groups: str, **claims: Any) -> str:
        return signer.token(iss=issuer.url, groups=list(groups), **claims)

    code, output, errors = await sapwood("node", "check", str(tmp_path / "hq.yaml"), "--json")
    findings = {each["subject"]: each for each in json.loads(output)["findings"]}
    assert findings["issuer"]["state"] == "warning", (code, output, errors)

    network.nodes["hq"].start()  # while the issuer is away: it runs, and nobody comes in
    ada = token(rsa, "chain-admins", email="ada@chain.example", email_verified=True)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                status, found = await asked(network, ada)
                break
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
    assert (status, found["code"]) == (403, "TOKEN_NEEDED")
    assert "keys are not here yet" in found["text"]
    assert (await asked(network, ""))[0] == 403
    issuer.start()
    await until(network, ada)

    vera, otto = token(rsa, "till-staff"), token(rsa, "chain operators", "others")
    assert (await asked(network, vera, "/api/dead"))[1]["code"] == "ROLE_NEEDED"
    assert (await asked(network, otto, "/api/dead"))[0] == 200
    assert (await asked(network, otto, "/api/permits", "POST", {"child": "x"}))[1]["code"] == "ROLE_NEEDED"
    permit = {"child": "leeds", "node": "hq", "send": ["sales/#"]}
    assert (await asked(network, ada, "/api/permits", "POST", permit))[0] == 200
    for wrong in (token(rsa, "strangers"), token(rsa, "chain-admins", aud="others"), ada[:-8] + "AAAAAAAA"):
        assert (await asked(network, wrong))[1]["code"] == "TOKEN_NEEDED"
    _, trail = await asked(network, vera, "/api/trail")
    who = f"ada@chain.example (248) @ {issuer.url}"
    assert [(each["who"], each["role"]) for each in trail["changes"]] == [(who, "administrator")]

    file = tmp_path / "token"
    file.write_text(otto + "\n")
    code, output, errors = await sapwood(
        "queues", "--json", "--url", network.url("hq"), "--token-file", str(file)
    )
    assert code == 0, errors

    issuer.publish(ec)  # rotated
    await until(network, token(ec, "till-staff"))
    assert (await asked(network, vera))[1]["code"] == "TOKEN_NEEDED"

    issuer.stop()  # its last keys count
    assert (await asked(network, token(ec, "chain operators"), "/api/dead"))[0] == 200
    assert (await asked(network, token(third, "chain-admins")))[0] == 403
    issuer.publish(ec, third)
    issuer.start()
    await until(network, token(third, "chain-admins"))

    ends = token(ec, "till-staff", exp=int(time.time() - LEEWAY) + 3)
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {ends}"}
        async with session.get(network.url("hq") + "/api/live?interval=0.2", headers=headers) as live:
            assert live.status == 200
            with pytest.raises(aiohttp.ClientError):
                await live.read()
    assert "has ended" in (await asked(network, ends))[1]["text"]

    log = network.nodes["hq"].log.read_text()
    assert "a request came with a wrong token: no value of the token's claim 'groups'" in log
    assert not any(each in log for each in (ada, otto, vera, ends))
