"""The operations on invitations of children."""

from typing import Any, Final

from broker.enrolment.messages import Invite, Invited, Listed, Revoked
from broker.http.api.operations import Call, Operation, Parameter
from broker.http.api.parameters import GONE, PAGE, cut_of
from broker.http.ports import NodePort

_REFUSED: Final = {409: "REFUSED: this node invites nobody; or the text says why."}
_WHAT: Final = Parameter("what", "A child's name, or the id of an invitation.", in_path=True)


def of_invitations(node: NodePort) -> list[Operation]:
    """Of one node."""

    async def listed(call: Call) -> Any:
        return node.administration.invitations.listed(cut_of(call))

    async def invite(call: Call) -> Any:
        return await node.administration.invitations.invite(call.body)

    async def revoke(call: Call) -> Any:
        return await node.administration.invitations.revoke(call["what"])

    path = "/api/invitations"
    return [
        Operation(
            "GET",
            path,
            "Invitations of children, and the children that joined by one.",
            "invitations",
            Listed,
            listed,
            PAGE,
            errors=_REFUSED,
        ),
        Operation(
            "POST",
            path,
            "Invite a child: the token of the answer is good once.",
            "invitations",
            Invited,
            invite,
            body=Invite,
            errors=_REFUSED,
        ),
        Operation(
            "DELETE",
            f"{path}/{{what}}",
            "Take an invitation back, or a child's right to its name.",
            "invitations",
            Revoked,
            revoke,
            (_WHAT,),
            errors={**GONE, **_REFUSED},
        ),
    ]
