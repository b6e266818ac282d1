"""An inviting node's office with a clock, a running time and a disk of its own; and machines that ask it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bridges import certificates
from broker.core.rows import InvitationRow, MemberRow, Transaction
from broker.enrolment import proofs
from broker.enrolment.authority import KeptAuthority
from broker.enrolment.messages import Granted, Join, Renew
from broker.enrolment.registrar import Registry
from broker.enrolment.tokens import Invitation
from config.model import Enrolment, Listener, Site

NOW = 1_800_000_000.0
DAY = 86_400.0
WAY = "wss://hq.example.com:7600/link"


class Desk:
    """An office that can be killed and started again: only what was committed is there then."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.ran = 0.0
        self.disk: dict[type, dict[object, object]] = {InvitationRow: {}, MemberRow: {}}
        self.stuck: asyncio.Event | None = None
        self.site = Site(
            name="hq",
            tree="acme",
            listener=Listener(public_uri=WAY),
            enrolment=Enrolment(authority=folder / "authority", lifetime=30 * DAY, grace=100 * DAY),
        )
        self.restart()

    def restart(self) -> None:
        authority = KeptAuthority(self.site.enrolment.authority, self.site, self.clock)
        rows = [list(self.disk[kind].values()) for kind in (InvitationRow, MemberRow)]
        self.office = Registry(self.site, authority, *rows, self.commit, lambda: self.ran, self.clock)

    def clock(self) -> float:
        return self.now

    async def commit(self, transaction: Transaction) -> None:
        if self.stuck is not None:
            await self.stuck.wait()
        for kind, rows in self.disk.items():
            for key, row in transaction.changes[kind].items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row

    @staticmethod
    def machine(invitation: Invitation, name: str = "") -> "Machine":
        return Machine(invitation, name)

    async def invite(self, name: str = "york", lifetime: float = DAY) -> Invitation:
        return await self.office.invite(name, "leaf", (), lifetime)


class Machine:
    """One that would join. `name`: what it calls itself, whatever its invitation says."""

    def __init__(self, invitation: Invitation, name: str = "") -> None:
        self.invitation = invitation
        self.name = name or invitation.name
        self.key = certificates.make_key()
        self.public = certificates.public_key(self.key)
        self.certificate = b""

    def asking(self, secret: bytes = b"") -> Join:
        request = certificates.make_request(self.key, self.name, "acme")
        der = certificates.read_request(request).der
        proof = proofs.prove(secret or self.invitation.secret, self.invitation.id, der)
        return Join(invitation=self.invitation.id, request=request, proof=proof)

    async def join(self, office: Registry) -> Granted:
        granted = await office.join(self.asking())
        self.certificate = granted.certificate.encode()
        return granted

    def renewing(self, next_key: bytes, present: bytes = b"") -> Renew:
        request = certificates.make_request(next_key, self.name, "acme")
        text = proofs.renewal_text("acme", self.name, certificates.read_request(request).der)
        signature = certificates.sign(present or self.key, text)
        return Renew(request=request, signature=signature)


@pytest.fixture
def desks(tmp_path: Path) -> Callable[[str], Desk]:
    """Makes desks in folders of their own."""
    return lambda name: Desk(tmp_path / name)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
