"""Invitations of children, and whose certificates count: what an operator asks of an inviting node."""

from typing import TYPE_CHECKING, Final

from broker.api.context import RunningNode
from broker.api.operation import GONE, PAGE, Parameter, operation
from broker.api.pages import Cut, Key, page_of
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.messages import (
    LONGEST_INVITATION,
    Invite,
    Invited,
    Listed,
    ListedInvitation,
    ListedMember,
    Revoked,
)
from broker.enrolment.tokens import write_token
from config.kinds import Fault
from config.schemes import DIRECT, LINK_PATH, LOOKED_UP
from config.uris import LINK_URI, address

if TYPE_CHECKING:
    from broker.enrolment.registrar import Registry

_SHORTEST: Final = 1.0
_MOST_WAYS: Final = 16
_PATH: Final = "/api/invitations"
_REFUSED: Final = {409: "REFUSED: this node invites nobody; or the text says why."}
_WHAT: Final = Parameter("what", "A child's name, or the id of an invitation.", in_path=True, secret=True)


def _office(node: RunningNode) -> "Registry":
    office = node.access.registry
    if office is None:
        raise SwitchError(
            "this node invites nobody: its file names no authority (enrolment, authority: a folder)"
        )
    return office


@operation(
    "GET",
    _PATH,
    "Invitations of children, and the children that joined by one.",
    "invitations",
    PAGE,
    errors=_REFUSED,
)
async def listed(node: RunningNode, cut: Cut) -> Listed:
    found = _office(node).listed()
    listed: list[ListedInvitation | ListedMember] = [*found.invitations, *found.members]
    page = await page_of(listed, _key, cut)
    return Listed(
        invitations=[each for each in page.items if isinstance(each, ListedInvitation)],
        members=[each for each in page.items if isinstance(each, ListedMember)],
        more=page.more,
        next=page.next,
    )


@operation(
    "POST",
    _PATH,
    "Invite a child: the token of the answer is good once.",
    "invitations",
    body=Invite,
    errors=_REFUSED,
    role="administrator",
)
async def invite(node: RunningNode, body: Invite) -> Invited:
    """A token for a new child; whoever has it may join under that name, once."""
    office = _office(node)
    if body.role not in ("leaf", "branch"):
        raise BadRequest(f"role={body.role[:40]!r}: expected leaf or branch")
    if not _SHORTEST <= body.lifetime <= LONGEST_INVITATION:
        most = f"{LONGEST_INVITATION:.0f} seconds ({LONGEST_INVITATION / 86_400:g} days)"
        raise BadRequest(f"lifetime={body.lifetime:g}: expected {_SHORTEST:g} to {most}")
    try:
        made = await office.invite(body.name, body.role, _ways(body.uris), body.lifetime)
    except EnrolmentRefused as error:
        raise _switch_error(error) from None
    return Invited(
        name=made.name, role=made.role, token=write_token(made), ends=made.ends, ways=list(made.ways)
    )


@operation(
    "DELETE",
    f"{_PATH}/{{what}}",
    "Take an invitation back, or a child's right to its name.",
    "invitations",
    (_WHAT,),
    errors={**GONE, **_REFUSED},
    role="administrator",
)
async def revoke(node: RunningNode, what: str) -> Revoked:
    """Take back what is open for a name or of an id; a child that has joined is out at once."""
    try:
        invitations, member = await _office(node).revoke(what)
    except EnrolmentRefused as error:
        raise _switch_error(error) from None
    return Revoked(revoked=what, invitations=invitations, member=member)


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
                f"{uri}: a node joins at the port, so expected {DIRECT.tls_scheme}://HOST:PORT{LINK_PATH} or"
                f" {LOOKED_UP}://DOMAIN"
            )
    return uris


def _switch_error(error: EnrolmentRefused) -> SwitchError:
    kind = {"BAD_REQUEST": BadRequest, "NOT_FOUND": NotFound}.get(error.code, SwitchError)
    return kind(str(error))
