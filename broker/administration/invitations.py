"""Invitations of children, and whose certificates count: what an operator asks of an inviting node."""

from typing import TYPE_CHECKING, Final

from broker.administration.pages import Cut, Key, page_at_once
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.messages import Invite, Invited, Listed, ListedInvitation, ListedMember, Revoked
from broker.enrolment.tokens import write_token
from config.kinds import Fault
from config.uris import LINK_URI, address

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry
    from broker.node import Node

LONGEST: Final = 90 * 86_400.0
_SHORTEST: Final = 1.0
_MOST_WAYS: Final = 16


class Invitations:
    """Calls raise `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        if node.enrolment is not None:
            node.enrolment.on_out = self._end_link

    def __repr__(self) -> str:
        return f"<Invitations of {self._node.site.name}>"

    @property
    def _office(self) -> "Registry":
        office = self._node.enrolment
        if office is None:
            raise SwitchError(
                "this node invites nobody: its file names no authority (enrolment, authority: a folder)"
            )
        return office

    async def invite(self, asked: Invite) -> Invited:
        """A token for a new child; whoever has it may join under that name, once."""
        office = self._office
        if asked.role not in ("leaf", "branch"):
            raise BadRequest(f"role={asked.role[:40]!r}: expected leaf or branch")
        if not _SHORTEST <= asked.lifetime <= LONGEST:
            raise BadRequest(f"lifetime={asked.lifetime:g}: expected {_SHORTEST:g} to {LONGEST:g} seconds")
        try:
            made = await office.invite(asked.name, asked.role, _ways(asked.uris), asked.lifetime)
        except EnrolmentRefused as error:
            raise _switch_error(error) from None
        return Invited(
            name=made.name, role=made.role, token=write_token(made), ends=made.ends, ways=list(made.ways)
        )

    def listed(self, cut: Cut) -> Listed:
        found = self._office.listed()
        listed: list[ListedInvitation | ListedMember] = [*found.invitations, *found.members]
        page = page_at_once(listed, _key, cut)
        return Listed(
            invitations=[each for each in page.items if isinstance(each, ListedInvitation)],
            members=[each for each in page.items if isinstance(each, ListedMember)],
            more=page.more,
            next=page.next,
        )

    async def revoke(self, what: str) -> Revoked:
        """Take back what is open for a name or of an id; a child that has joined is out at once."""
        try:
            invitations, member = await self._office.revoke(what)
        except EnrolmentRefused as error:
            raise _switch_error(error) from None
        return Revoked(revoked=what, invitations=invitations, member=member)

    def _end_link(self, name: str, why: str) -> None:
        """Its certificate counts no more, or another machine has joined under this name."""
        self._node.entrance.look_again()
        core = self._node.core
        child = core.neighbours.get(name)
        if child is not None and child.link is not None:
            core.links.handle(child.link, child.link.pause(why))
            self._node.wake()


def _key(each: ListedInvitation | ListedMember) -> Key:
    """Invitations come before members."""
    if isinstance(each, ListedInvitation):
        return 0, each.name, each.ends, each.id
    return 1, each.name


def _ways(uris: list[str]) -> list[str]:
    if len(uris) > _MOST_WAYS:
        raise BadRequest(f"{len(uris)} uris: expected {_MOST_WAYS} at most")
    for uri in uris:
        try:
            place = address(LINK_URI.parse(uri))
        except Fault as error:
            raise BadRequest(str(error)) from None
        if not place.reaches_a_port:
            raise BadRequest(
                f"{uri}: a node joins at the port, so expected wss://HOST:PORT/link or srv://DOMAIN"
            )
    return uris


def _switch_error(error: EnrolmentRefused) -> SwitchError:
    kind = {"BAD_REQUEST": BadRequest, "NOT_FOUND": NotFound}.get(error.code, SwitchError)
    return kind(str(error))
