"""The operators of a node: people and programs that look at it and administrate it, by token and with a role.

A token is 256 random bits, so that its hash may stand in the file: nobody finds the token by it.
"""

from typing import Final, Literal, get_args

from config.fields import section, value
from config.kinds import Choice, Text
from config.values import NAME

Role = Literal["viewer", "operator", "administrator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Each may do all that those before it may."""
RESERVED: Final = {
    "token": "whoever has the node's own token",
    "local": "this very machine",
}
"""Names that the trail of changes has for those that no file lists."""
TOKEN_HASH: Final = Text(
    "a hashed token as `sapwood operator token` prints it, sha256$ and 43 characters",
    r"sha256\$[A-Za-z0-9_\-]{43}",
)


@section
class Operator:
    """One person, or one program, with a token of its own."""

    name: str = value(NAME, "the operator's name, as the trail of changes has it", example="night-desk")
    role: Role = value(
        Choice(ROLES),
        "viewer: sees the node's state, and no payloads; operator: sees and moves messages too; "
        "administrator: may change routes, permits and who is in the tree",
        default="viewer",
    )
    token_hash: str = value(
        TOKEN_HASH,
        "the hashed token",
        example="sha256$ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0",
    )
