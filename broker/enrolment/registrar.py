"""What an inviting node decides: who is invited, who may join, whose certificate is renewed, who is out.

Law: an invitation is good for one key. Which key that is, is on disk before the certificate leaves, so that
of two who come with one token the second is refused, also after a SIGKILL; who comes again with the same key
(because the answer was lost) gets its answer.
Law: a member's name goes with its key. A renewal is signed with the present key and names the next one, which
is on disk before the answer leaves; until the next one was seen, a repetition signed with the former key is
answered too. A key that was replaced proves nothing else: a copy of it, taken earlier, is worthless.
Law: in a mesh all know who has joined at any of them (`merge`, see `sharing`); an invitation is its own
node's alone, so that it cannot be used twice. Of two accounts of a member the one after the later revocation
or joining counts, else the one whose certificate ends later.
Law: secrets, tokens and private keys are in no log line, no error and no list.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from bridges.certificates import (
    CertificateError,
    CertificateRequest,
    check_signature,
    mark_of,
    read_request,
    serial_mark,
)
from bridges.tls import is_certified
from broker.core.rows import InvitationRow, MemberRow, Transaction
from broker.enrolment import proofs
from broker.enrolment.authority import KeptAuthority
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.messages import Granted, Join, Listed, ListedInvitation, ListedMember, Renew
from broker.enrolment.tokens import Invitation, new_id, new_secret
from config.model import Site
from config.schemes import DIRECT, shows_certificate
from sapwood.protocol.errors import InvalidName, LinkRefused, Refusal
from sapwood.protocol.names import own_name
from treeconnector.identity import Shown

_log = logging.getLogger("sapwood.enrolment")
MOST_INVITATIONS: Final = 10_000
_REMEMBERED: Final = 30 * 86_400
_LONGEST_SLEEP: Final = 60.0
_SHORTEST_SLEEP: Final = 0.1
_REVOKED: Final = "your certificate was revoked"
_REPLACED: Final = "another machine was invited in your place"
Commit = Callable[[Transaction], Awaitable[None]]


class Registry:
    """One for each inviting node. `commit`: returns once a transaction is on disk.

    `clock`: seconds since 1970, what certificates need. `running`: seconds of this node's running time: where
    the clock is set back, invitations end all the same. `on_out(name, why)`: a child's link is to end.
    `on_trust`: whom this node trusts has changed. `tell`: the other nodes of the mesh hear of a member;
    `ways_beside`: where these can be dialled.
    """

    def __init__(
        self,
        site: Site,
        authority: KeptAuthority,
        invitations: Iterable[InvitationRow],
        members: Iterable[MemberRow],
        commit: Commit,
        running: Callable[[], float],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._site = site
        self.authority = authority
        self._commit = commit
        self._running = running
        self._clock = clock
        self._invitations = {row.id: row for row in invitations}
        self._members = {row.name: row for row in members}
        self._keeping: set[asyncio.Future[None]] = set()
        self.on_out: Callable[[str, str], None] = lambda name, why: None
        self.on_trust: Callable[[], None] = lambda: None
        self.tell: Callable[[MemberRow], Awaitable[None]] = _nobody
        self.ways_beside: Callable[[], Iterable[str]] = tuple

    def __repr__(self) -> str:
        counts = f"invitations={len(self._invitations)} members={len(self._members)}"
        return f"<Registry of {self._site.name} {counts}>"

    async def run(self) -> None:
        """Keep the port's certificate good, and trust who is to be trusted now, until cancelled."""
        while True:
            pause = _LONGEST_SLEEP
            try:
                pause = self.authority.renew_port()
                if self.authority.look_again():
                    _log.info("= other authorities are trusted beside this node's own now")
                    self.on_trust()
            except (OSError, CertificateError) as error:
                _log.error("! the port's certificate, or whom it trusts, cannot be renewed: %s", error)
            await asyncio.sleep(min(max(pause, _SHORTEST_SLEEP), _LONGEST_SLEEP))

    # --- for operators

    async def invite(self, name: str, role: str, ways: Iterable[str], lifetime: float) -> Invitation:
        """A new invitation for `name`; one that is open for it already ends. Raises `EnrolmentRefused`.

        `ways`: other than those that the site announces; `lifetime`: seconds.
        """
        try:
            own_name(name)
        except InvalidName as error:
            raise EnrolmentRefused("BAD_REQUEST", str(error)) from None
        if name == self._site.name:
            raise EnrolmentRefused("BAD_REQUEST", f"{name!r} is this node itself")
        ways = tuple(ways) or self._ways()
        if not ways:
            raise EnrolmentRefused(
                "BAD_REQUEST",
                "nobody knows where to find this node: give public_uri at the listener, or --uri"
                f" {DIRECT.tls_scheme}://…",
            )
        transaction = Transaction()
        self._sweep(transaction, name)
        if len(self._invitations) >= MOST_INVITATIONS:
            raise EnrolmentRefused("BUSY", f"{MOST_INVITATIONS} invitations are open: revoke some")
        secret, ends = new_secret(), int(self._clock() + lifetime)
        until = int((self._running() + lifetime) * 1000)
        row = InvitationRow(new_id(), name, role, proofs.stored_of(secret), ends, until, b"")
        self._put(transaction, row)
        await self._commit(transaction)
        _log.info("= invited %s (%s)", name, role, extra={"link": name})
        site = self._site
        return Invitation(
            tree=site.tree,
            name=name,
            role="leaf" if role == "leaf" else "branch",
            parent=site.name,
            ways=ways,
            fingerprint=self.authority.fingerprint,
            id=row.id,
            secret=secret,
            ends=ends,
        )

    def _ways(self) -> tuple[str, ...]:
        ways = (*self._site.listener.announced, *self.ways_beside())
        return tuple(dict.fromkeys(filter(shows_certificate, ways)))

    def _sweep(self, transaction: Transaction, name: str) -> None:
        """Forget what ended long ago, and what is open for this name."""
        for row in list(self._invitations.values()):
            long_ago = row.ends + _REMEMBERED < self._clock()
            if long_ago or (row.name == name and not row.key):
                del self._invitations[row.id]
                transaction.delete(InvitationRow, row.id)

    def listed(self) -> Listed:
        """All invitations and members, without anything secret."""
        invitations = [
            ListedInvitation(
                id=row.id.hex(), name=row.name, role=row.role, ends=row.ends, state=self._state(row)
            )
            for row in self._invitations.values()
        ]
        members = [
            ListedMember(name=row.name, role=row.role, certificate_ends=row.ends, revoked=_is_out(row))
            for row in self._members.values()
        ]
        return Listed(
            invitations=sorted(invitations, key=lambda each: (each.name, each.ends)),
            members=sorted(members, key=lambda each: each.name),
        )

    async def revoke(self, what: str) -> tuple[int, bool]:
        """Take back open invitations, by id or name, and a member's right to its name.

        Returns how many invitations, and whether a member. Raises `EnrolmentRefused`.
        """
        transaction = Transaction()
        withdrawn = self._withdraw(transaction, what)
        member = self._members.get(what)
        ousted = member is not None and not _is_out(member)
        if member is not None and ousted:
            member = member._replace(revoked=member.revoked + 1)
            self._put(transaction, member)
        if not (withdrawn or ousted):
            raise EnrolmentRefused(
                "NOT_FOUND",
                f"{what[:64]!r} is no open invitation here and no child with a certificate of ours",
            )
        await self._commit(transaction)
        _log.warning("! revoked %s", what, extra={"link": what})
        if member is not None and ousted:
            self.on_out(what, _REVOKED)
            await self.tell(member)
        return withdrawn, ousted

    def _withdraw(self, transaction: Transaction, what: str) -> int:
        """Take back open invitations, by id or name; how many there were."""
        open_ones = [row for row in self._invitations.values() if not row.key]
        withdrawn = [row for row in open_ones if what in (row.name, row.id.hex())]
        for row in withdrawn:
            del self._invitations[row.id]
            transaction.delete(InvitationRow, row.id)
        return len(withdrawn)

    # --- for nodes that join and renew

    async def join(self, asked: Join) -> Granted:
        """A certificate for who proves the secret of an invitation. Raises `EnrolmentRefused`."""
        request = _read(asked.request)
        row = self._invitations.get(asked.invitation)
        if row is None or not proofs.is_proven(asked.proof, row.stored, row.id, request.der):
            raise EnrolmentRefused(
                "REFUSED", f"{self._site.name!r} knows no such invitation, or it was revoked: invite again"
            )
        if request.name != row.name:
            raise EnrolmentRefused(
                "REFUSED", f"the invitation is for {row.name!r}, the certificate request for {request.name!r}"
            )
        if row.key and row.key != request.key:
            _log.warning("! a second machine tried the invitation of %s", row.name, extra={"link": row.name})
            raise EnrolmentRefused(
                "USED",
                f"another machine has joined as {row.name!r} with this token. Was that not you? Then revoke"
                f" {row.name!r} at {self._site.name!r}; for this machine, invite again",
            )
        if self._state(row) == "ended":
            raise EnrolmentRefused("ENDED", f"the invitation of {row.name!r} has ended: invite again")
        return await self._admit(row, request)

    async def _admit(self, row: InvitationRow, request: CertificateRequest) -> Granted:
        member = self._members.get(row.name)
        if row.key and (member is None or _is_out(member) or member.key != request.key):
            raise EnrolmentRefused("REFUSED", f"{row.name!r} was revoked, or has renewed since: invite again")
        transaction = Transaction()
        known = 0 if member is None else member.revoked
        since = known if row.key or member is None else known + 2 - known % 2
        granted = self._grant(transaction, request, MemberRow(row.name, row.role, b"", b"", 0, since))
        self._put(transaction, row._replace(key=request.key))
        await self._commit(transaction)
        if not row.key:
            _log.info("= %s has joined", row.name, extra={"link": row.name})
            self.on_out(row.name, _REPLACED)
        await self.tell(self._members[row.name])
        return granted

    async def renew(self, asked: Renew) -> Granted:
        """The next certificate, for who proves the present key. Raises `EnrolmentRefused`."""
        request = _read(asked.request)
        member = self._members.get(request.name)
        if member is None or not self._may_renew(member, request, asked.signature):
            raise EnrolmentRefused(
                "REFUSED",
                f"this is not the key that {request.name[:64]!r} has here now: it is another machine's, or a"
                " copy from before the last renewal. Invite it again",
            )
        self._check_member(member)
        grace = self._site.enrolment.grace
        if self._clock() > member.ends + grace:
            raise EnrolmentRefused(
                "ENDED",
                f"the certificate of {member.name!r} ended more than {grace / 86_400:g} d ago, which is"
                " the grace here: invite it again",
            )
        former = member.former if request.key == member.key else member.key
        transaction = Transaction()
        granted = self._grant(transaction, request, member._replace(former=former))
        await self._commit(transaction)
        _log.info("= renewed the certificate of %s", member.name, extra={"link": member.name})
        await self.tell(self._members[member.name])
        return granted

    def _may_renew(self, member: MemberRow, request: CertificateRequest, signature: bytes) -> bool:
        text = proofs.renewal_text(self._site.tree, member.name, request.der)
        if _signed(member.key, signature, text):
            return True
        repeats = request.key == member.key and bool(member.former)
        return repeats and _signed(member.former, signature, text)

    def _grant(self, transaction: Transaction, request: CertificateRequest, member: MemberRow) -> Granted:
        """The next certificate, which ends later than the one before in the books of all."""
        now, lifetime, site = self._clock(), self._site.enrolment.lifetime, self._site
        certificate = self.authority.authority.for_child(request, site.tree, now, lifetime)
        ends = max(int(now + lifetime), member.ends + 1)
        self._put(transaction, member._replace(key=request.key, ends=ends))
        return Granted(
            certificate=certificate.decode("ascii"),
            authorities=self.authority.trusted.decode("ascii"),
            ways=list(self._ways()),
        )

    # --- for links

    def role_of(self, name: str) -> str:
        """The role in which a child was invited; '' if it was not."""
        member = self._members.get(name)
        return member.role if member is not None else ""

    def admit_link(self, name: str, shown: Shown, role: str = "leaf") -> None:
        """Let a child without a secret link only as the member that its certificate is of, in its role.

        Raises `LinkRefused`.
        """
        member = self._members.get(name)
        if member is None or not is_certified(name, shown.certified):
            found = ", ".join(sorted(shown.certified)[:1])[:64]
            shows = f"shows a certificate for {found}" if found else "shows no certificate"
            raise LinkRefused(
                Refusal.SECRET,
                f"{name!r} {shows}: give it a token of `sapwood invite {name}` at {self._site.name!r},"
                " or a permit with a secret",
            )
        try:
            self._check_member(member)
        except EnrolmentRefused as error:
            raise LinkRefused(Refusal.SECRET, str(error)) from None
        if member.role == "leaf" and role != "leaf":
            raise LinkRefused(
                Refusal.ROLE,
                f"{name!r} was invited as a leaf, and says that it is a {role}: correct its nodetype, or give"
                f" it a token of `sapwood invite {name} --role branch`",
            )
        mark = mark_of(shown.serial)
        if mark == serial_mark(member.key):
            self._forget_former(member)
        elif not member.former or mark != serial_mark(member.former):
            raise LinkRefused(
                Refusal.SECRET,
                f"the certificate of {name!r} is of a key that was replaced: it belongs to another machine,"
                " or to a copy from before its last renewal. Invite it again",
            )

    def _forget_former(self, member: MemberRow) -> None:
        """The present key was seen: the former one proves nothing any more."""
        if member.former:
            transaction = Transaction()
            self._put(transaction, member._replace(former=b""))
            self.keep_later(transaction)

    def is_member(self, name: str) -> bool:
        """Whether a child joined by invitation, and was not revoked."""
        member = self._members.get(name)
        return member is not None and not _is_out(member)

    def _check_member(self, member: MemberRow) -> None:
        if _is_out(member):
            raise EnrolmentRefused(
                "REFUSED", f"{member.name!r} was revoked at {self._site.name!r}: invite it again"
            )

    # --- for the other nodes of a mesh

    def members(self, after: str = "") -> list[MemberRow]:
        """All that have joined, by name, from behind `after`."""
        return sorted(row for row in self._members.values() if row.name > after)

    def digest(self) -> str:
        """What `members` says, in short."""
        rows = [(row.name, *_age(row)) for row in self.members()]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    def merge(self, rows: Iterable[MemberRow]) -> None:
        """What another node of the mesh knows of members counts where it is newer."""
        transaction = Transaction()
        for row in rows:
            known = self._members.get(row.name)
            if known is not None and _age(row) <= _age(known):
                continue
            self._put(transaction, row)
            if _is_out(row):
                self._withdraw(transaction, row.name)
                self.on_out(row.name, _REVOKED)
            elif known is not None and row.revoked != known.revoked:
                self.on_out(row.name, _REPLACED)
        if transaction:
            self.keep_later(transaction)

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    @property
    def lifetime(self) -> float:
        """Of a certificate, seconds."""
        return self._site.enrolment.lifetime

    def keep_later(self, transaction: Transaction) -> None:
        """On disk soon; who asks for it before is told the same."""
        keeping = asyncio.ensure_future(self._commit(transaction))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    # --- rows

    def _state(self, row: InvitationRow) -> str:
        in_time = self._clock() < row.ends and self._running() * 1000 < row.until
        return ("used" if row.key else "open") if in_time else "ended"

    def _put(self, transaction: Transaction, row: InvitationRow | MemberRow) -> None:
        """Count from now on, and be on disk with the transaction."""
        transaction.put(row)
        if isinstance(row, InvitationRow):
            self._invitations[row.id] = row
        else:
            self._members[row.name] = row


async def _nobody(_member: MemberRow) -> None:
    """There is no mesh."""


def _is_out(member: MemberRow) -> bool:
    return bool(member.revoked % 2)


def _age(member: MemberRow) -> tuple[int, int, bytes]:
    """Of two accounts of a member the greater is the newer."""
    return member.revoked, member.ends, member.key


def _read(pem: bytes) -> CertificateRequest:
    try:
        return read_request(pem)
    except CertificateError as error:
        raise EnrolmentRefused("BAD_REQUEST", str(error)) from None


def _signed(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        check_signature(key, signature, text)
    except CertificateError:
        return False
    return True
