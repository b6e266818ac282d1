"""The operations that show and change what children may do."""

from typing import Any, Final

from broker.administration import permit_answers
from broker.administration.permit_answers import PermitChange
from broker.http.api.operations import Call, Operation, Parameter
from broker.http.api.parameters import GONE, PAGE, cut_of
from broker.http.ports import NodePort

_AWAY: Final = {
    409: "REFUSED: the site's file cannot be read, or that node answers its ancestors only.",
    504: "UNREACHABLE: that node does not answer.",
}
_AT: Final = Parameter("node", "The node that is asked; this one if absent.")
_CHILD: Final = Parameter("child", "Only this child.")


def of_permits(node: NodePort) -> list[Operation]:
    """Of one node."""

    async def show(call: Call) -> Any:
        return await node.administration.permits.show(call["node"], call["child"], cut_of(call))

    async def change(call: Call) -> Any:
        return await node.administration.permits.set(call.body)

    async def unset(call: Call) -> Any:
        return await node.administration.permits.unset(call.body)

    async def reload(call: Call) -> Any:
        return await node.administration.permits.reload(call["node"])

    errors = {**GONE, **_AWAY}
    child = permit_answers.ChildPermit
    return [
        Operation(
            "GET",
            "/api/permits",
            "What the children of a node may do, and what it may do itself.",
            "tree",
            permit_answers.Permits,
            show,
            (_AT, _CHILD, *PAGE),
            errors=errors,
        ),
        Operation(
            "POST",
            "/api/permits",
            "Say what a child may do, whatever the site's file says; it stays until it is unset.",
            "tree",
            child,
            change,
            body=PermitChange,
            errors=errors,
        ),
        Operation(
            "DELETE",
            "/api/permits",
            "Let the site's file say again what a child may do.",
            "tree",
            child,
            unset,
            body=PermitChange,
            errors=errors,
        ),
        Operation(
            "POST",
            "/api/permits/reload",
            "Read the site's file again: who may be a child, and what children may do. Only children that it "
            "names no more lose their links.",
            "tree",
            permit_answers.Reloaded,
            reload,
            (_AT,),
            errors=errors,
        ),
    ]
