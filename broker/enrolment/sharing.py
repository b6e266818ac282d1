"""What the inviting nodes of one mesh tell each other: their authorities, and who has joined at any of them.

So a child that joined at one of them is let in by all, and renews at any. No private key and no invitation is
told. Each asks each, when their link comes up and now and then; a change is told before who asked for it has
the answer, as far as the others can be reached.

Law: only nodes of this node's own mesh are answered and believed (`CellCommand.beside`).
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from bridges import certificates
from bridges.certificates import CertificateError
from broker.cells.cells import CellCommand, NodeCells
from broker.cells.errors import CellError, RefusedByCell
from broker.core.errors import BadRequest
from broker.core.rows import MemberRow, MetaRow, Transaction
from broker.enrolment.registrar import Registry
from broker.host import Host
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import own_name
from treeconnector.frame_events import MAX_AUTHORITIES
from treeconnector.roles import ROLES

_log = logging.getLogger("sapwood.enrolment")
_COMMAND: Final = "members"
_ROW: Final = "authority of "
_LOOK_EVERY: Final = 0.5
_AGAIN_AFTER: Final = 60.0
_TELL_WITHIN: Final = 2.0
_PAGE: Final = 1000
_LONGEST_KEY: Final = 1024


class Member(msgspec.Struct, frozen=True):
    """A `MemberRow` on its way."""

    name: str
    role: str
    key: bytes
    former: bytes
    ends: int
    revoked: int


class Asked(msgspec.Struct, kw_only=True):
    """`authority`: PEM, the asker's own. `members`: news. `digest`: of all that the asker knows, '' = it
    wants nothing; `after`: it has all up to this name.
    """

    authority: str
    members: list[Member] = []
    digest: str = ""
    after: str = ""


class Told(msgspec.Struct, kw_only=True):
    """`more`: there are further members."""

    authority: str
    members: list[Member] = []
    more: bool = False


class SharedAuthority(msgspec.Struct, array_like=True):
    """Another node's authority. `until`: trusted until then (seconds since 1970), as the node has left the
    mesh, and some children may still have certificates of it; 0: it is there.
    """

    certificates: bytes
    until: float = 0.0


class Sharing:
    """Of one inviting node. `kept`: the authorities of the others, by name."""

    def __init__(self, host: Host, office: Registry, rows: Iterable[MetaRow]) -> None:
        self._host = host
        self._office = office
        self._exchanged: dict[str, float] = {}
        self._links: dict[str, Any] = {}
        self.kept = {
            row.name.removeprefix(_ROW): msgspec.msgpack.decode(row.value, type=SharedAuthority)
            for row in rows
            if row.name.startswith(_ROW)
        }
        self._count()
        office.tell, office.on_trust = self._tell, self._count
        office.ways_beside = self._ways

    def open(self, cells: NodeCells) -> None:
        """Answer the others from now on, and ask them."""
        self._cells = cells
        cells.commands[_COMMAND] = CellCommand(self._answer, beside=True)

    def __repr__(self) -> str:
        return f"<Sharing of {self._host.core.identity.name} with {', '.join(sorted(self.kept)) or 'nobody'}>"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._watch_who_left()
            for peer in self._due():
                await self._exchange(peer)
            await asyncio.sleep(_LOOK_EVERY)

    def _due(self) -> list[str]:
        """Those whose link is a new one, or with whom the last exchange was long ago."""
        before = asyncio.get_running_loop().time() - _AGAIN_AFTER
        return [
            peer.name
            for peer in self._host.core.context.peers()
            if peer.up
            and (self._links.get(peer.name) is not peer.link or self._exchanged[peer.name] < before)
        ]

    # --- asking

    async def _exchange(self, peer: str) -> None:
        """Learn all that another node knows and this one does not."""
        neighbour, after, more = self._host.core.neighbours.get(peer), "", True
        link = neighbour.link if neighbour is not None else None
        try:
            while more:
                digest = self._office.digest()
                told = await self._ask(peer, Asked(authority=self._own, digest=digest, after=after))
                self._take(peer, told.authority, told.members)
                more = told.more and bool(told.members)
                after = told.members[-1].name if told.members else ""
        except RefusedByCell as error:
            level = logging.DEBUG if peer in self._exchanged else logging.WARNING
            _log.log(level, "! %s tells nothing of its children: %s", peer, error, extra={"link": peer})
        except (CellError, BadRequest) as error:
            _log.debug("= %s does not tell of its children now: %s", peer, error)
            return
        self._links[peer] = link
        self._exchanged[peer] = asyncio.get_running_loop().time()

    async def _ask(self, peer: str, asked: Asked, timeout: float = 5.0) -> Told:
        arguments = msgspec.to_builtins(asked)
        said = await self._cells.ask(peer, _COMMAND, arguments, timeout)
        try:
            return msgspec.convert(said, Told)
        except msgspec.ValidationError as error:
            raise BadRequest(f"{peer}: its answer is not understood: {error}") from None

    async def _tell(self, member: MemberRow) -> None:
        """All others that can be reached know of it when this returns."""
        asked = Asked(authority=self._own, members=[Member(*member)])
        peers = [peer.name for peer in self._host.core.context.peers() if peer.up]
        results = await asyncio.gather(
            *(self._ask(peer, asked, _TELL_WITHIN) for peer in peers), return_exceptions=True
        )
        for peer, result in zip(peers, results, strict=True):
            if isinstance(result, BaseException):
                self._links.pop(peer, None)

    # --- answering

    def _answer(self, asker: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            asked = msgspec.convert(arguments, Asked)
        except msgspec.ValidationError as error:
            raise BadRequest(f"members: {error}") from None
        self._take(asker, asked.authority, asked.members)
        rows: list[MemberRow] = []
        if asked.digest and asked.digest != self._office.digest():
            rows = self._office.members(asked.after)
        members = [Member(*row) for row in rows[:_PAGE]]
        told: dict[str, Any] = msgspec.to_builtins(
            Told(authority=self._own, members=members, more=len(rows) > _PAGE)
        )
        return told

    def _take(self, peer: str, authority: str, members: Iterable[Member]) -> None:
        self._trust(peer, authority.encode())
        self._office.merge(MemberRow(*msgspec.structs.astuple(each)) for each in members if _is_sound(each))

    # --- whom to trust

    @property
    def _own(self) -> str:
        return self._office.authority.own.decode("ascii")

    def _trust(self, peer: str, pem: bytes) -> None:
        """Raises `BadRequest`."""
        known = self.kept.get(peer)
        if known is not None and known.certificates == pem and not known.until:
            return
        try:
            if len(pem) > MAX_AUTHORITIES or not certificates.split(pem):
                raise CertificateError("none, or too many")
        except CertificateError as error:
            raise BadRequest(f"the authorities of {peer!r}: {error}") from None
        self._keep(peer, SharedAuthority(pem))
        _log.info("= trusts the authority of %s, a node of its mesh", peer, extra={"link": peer})

    def _watch_who_left(self) -> None:
        """A node that has left the mesh is trusted until no child can have a certificate of it any more."""
        now = self._office.now
        for name, kept in list(self.kept.items()):
            if name in self._host.core.mesh.members:
                continue
            if not kept.until:
                self._keep(name, SharedAuthority(kept.certificates, now + self._office.lifetime))
            elif kept.until < now:
                self._keep(name, None)

    def _keep(self, peer: str, kept: SharedAuthority | None) -> None:
        transaction = Transaction()
        if kept is None:
            del self.kept[peer]
            transaction.delete(MetaRow, _ROW + peer)
        else:
            self.kept[peer] = kept
            transaction.put(MetaRow(_ROW + peer, msgspec.msgpack.encode(kept)))
        self._office.keep_later(transaction)
        self._count()
        self._host.wake()

    def _count(self) -> None:
        """Trust them at the port, and let children know."""
        authority = self._office.authority
        try:
            authority.trust(kept.certificates for kept in self.kept.values())
        except (OSError, CertificateError) as error:
            _log.error("! whom this node's port trusts cannot be renewed: %s", error)
        if len(authority.trusted) <= MAX_AUTHORITIES:
            self._host.core.mesh.show(authority.trusted if self.kept else b"")

    def _ways(self) -> list[str]:
        return [way for ways in self._host.core.mesh.members.values() for way in ways]


def _is_sound(member: Member) -> bool:
    try:
        own_name(member.name)
    except InvalidName:
        return False
    keys = len(member.key) <= _LONGEST_KEY and len(member.former) <= _LONGEST_KEY
    return keys and member.role in ROLES and member.ends >= 0 and member.revoked >= 0
