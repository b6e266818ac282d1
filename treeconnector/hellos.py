"""What a hello may say, and whether two hellos fit together.

Limits hold before anybody is trusted. What cannot be is a `FrameError`; what is legal but does not fit
(version, tree, roles, names) is an objection, with a text that names both sides.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sapwood.protocol.errors import FrameError, InvalidName, Refusal
from sapwood.protocol.names import node_name, own_name
from treeconnector.frames import DEFAULT_MAX_FRAME, KNOWN, Hello, Member
from treeconnector.positions import MAX_NUMBER
from treeconnector.roles import role_of, why_not_below, why_not_beside

MAX_HELLO: Final = DEFAULT_MAX_FRAME
MIN_FRAME: Final = 32 * 1024
MAX_CHAIN: Final = 64
MAX_ADDRESSES: Final = 32
MAX_ADDRESS: Final = 512
MAX_ZONE: Final = 255
MAX_MESH: Final = 31
MAX_ABOVE: Final = 256
MAX_WORDS: Final = 32
_ID_BYTES: Final = 16
_MAX_NONCE: Final = 64


class Terms(NamedTuple):
    """What two hellos agree on."""

    version: int
    max_frame: int


def check(hello: Hello) -> None:
    """Raise `FrameError` if no honest node could say this."""
    try:
        node_name(hello.tree)
        own_name(hello.name)
        role_of(hello.role)
        check_chain(hello.chain, hello.name)
        check_above(hello.above)
    except InvalidName as error:
        raise FrameError(f"a hello that cannot be: {error}") from None
    check_mesh(hello.mesh, hello.name)
    _check_ids(hello)
    _check_numbers(hello)
    _check_addresses(hello.addresses)
    if len(hello.zone) > MAX_ZONE:
        raise FrameError(f"a hello whose zone has {len(hello.zone)} characters: {MAX_ZONE} at most")
    if len(hello.knows) > MAX_WORDS or any(len(word) > MAX_WORDS for word in hello.knows):
        raise FrameError(f"a hello knows at most {MAX_WORDS} optional words of {MAX_WORDS} characters")


def check_chain(chain: list[str], name: str) -> None:
    """Raise `FrameError` if `chain` is no way from `name` up to a root; `InvalidName` for its names."""
    if not 1 <= len(chain) <= MAX_CHAIN:
        raise FrameError(f"a chain of {len(chain)} names: expected 1 to {MAX_CHAIN}")
    if chain[0] != name:
        raise FrameError(f"a chain that begins with {chain[0][:64]!r}: expected its sender, {name!r}")
    if len(set(chain)) != len(chain):
        raise FrameError(f"a chain in which a name stands twice: {' - '.join(chain)[:400]}")
    for each in chain:
        node_name(each)


def check_above(names: list[str]) -> None:
    """Raise `FrameError` if these are too many to be above a node; `InvalidName` for the names."""
    if len(names) > MAX_ABOVE:
        raise FrameError(f"a way up with {len(names)} further nodes: expected {MAX_ABOVE} at most")
    for each in names:
        node_name(each)


def _check_addresses(addresses: list[str]) -> None:
    if len(addresses) > MAX_ADDRESSES or any(len(address) > MAX_ADDRESS for address in addresses):
        raise FrameError(f"a hello has at most {MAX_ADDRESSES} addresses of {MAX_ADDRESS} characters")


def check_mesh(members: list[Member], name: str) -> None:
    """Raise `FrameError` if these cannot be the other nodes of the mesh of `name`."""
    names = [member.name for member in members]
    if len(names) > MAX_MESH:
        raise FrameError(f"a mesh of {len(names) + 1} nodes: expected {MAX_MESH + 1} at most")
    if len({name, *names}) <= len(names):
        raise FrameError(f"a mesh in which a name stands twice: {', '.join([name, *names])[:400]}")
    for member in members:
        try:
            node_name(member.name)
        except InvalidName as error:
            raise FrameError(f"a node of a mesh that cannot be: {error}") from None
        _check_addresses(member.addresses)


def is_mesh(dialler: Hello, other: Hello) -> bool:
    """Do these two mean to be beside each other? The dialler says so."""
    return any(member.name == other.name for member in dialler.mesh)


def mesh_name(name: str, members: Iterable[str]) -> str:
    """What a mesh is called in chains of names, whichever of its nodes speaks: its smallest name."""
    return min((name, *members))


def _check_ids(hello: Hello) -> None:
    for what, value in (("store id", hello.store_id), ("incarnation", hello.incarnation)):
        if len(value) != _ID_BYTES:
            raise FrameError(f"a hello with a {what} of {len(value)} bytes: expected {_ID_BYTES}")
    if not _ID_BYTES <= len(hello.nonce) <= _MAX_NONCE:
        raise FrameError(f"a hello with a nonce of {len(hello.nonce)} bytes: expected 16 to {_MAX_NONCE}")


def _check_numbers(hello: Hello) -> None:
    least = {
        "version": 1,
        "oldest": 1,
        "start": 0,
        "max_frame": MIN_FRAME,
        "max_message": 1,
        "window_bundles": 1,
        "window_bytes": 1,
        "reads": 1,
        "streams": 0,
    }
    for name, smallest in least.items():
        if not smallest <= getattr(hello, name) < MAX_NUMBER:
            raise FrameError(f"a hello whose {name} is {getattr(hello, name)}: expected {smallest} or more")
    if hello.oldest > hello.version:
        raise FrameError(f"a hello of version {hello.version} that speaks {hello.oldest} and later")


def terms(mine: Hello, theirs: Hello) -> Terms:
    return Terms(min(mine.version, theirs.version), min(mine.max_frame, theirs.max_frame))


def both_know(mine: Hello, theirs: Hello) -> tuple[str, ...]:
    """The optional frames that both understand. Nearly all nodes know the same."""
    common = tuple(word for word in mine.knows if word in theirs.knows)
    return KNOWN if common == KNOWN else common


def objection(mine: Hello, theirs: Hello, *, dials: bool) -> tuple[Refusal, str] | None:
    """Why these two cannot be linked, if so. `dials`: `mine` is the child's."""
    child, parent = (mine, theirs) if dials else (theirs, mine)
    if min(mine.version, theirs.version) < max(mine.oldest, theirs.oldest):
        return Refusal.VERSION, f"{_versions(child)}, {_versions(parent)}: upgrade the older one"
    if child.tree != parent.tree:
        return Refusal.TREE, f"{_tree(child)}, its parent {_tree(parent)}"
    if child.incarnation == parent.incarnation:
        return Refusal.CYCLE, f"{child.name} has dialled itself: give the address of the node that is meant"
    mesh = is_mesh(child, parent)
    roles = role_of(child.role), role_of(parent.role)
    why = why_not_beside(*roles) if mesh else why_not_below(*roles)
    if why:
        text = f"{child.name}, a {child.role}, dialled {parent.name}, a {parent.role}: {why}"
        return Refusal.ROLE if mesh or roles[0].has_parent else Refusal.SECOND_ROOT, text
    if child.name == parent.name:
        return Refusal.NAME, f"both ends are named {child.name}{_place(child)}: names are unique in a tree"
    if child.store_id == parent.store_id:
        text = f"{child.name} and {parent.name} have the same store id: one is a copy of the other's disk"
        return Refusal.CLONE, text
    return None


def _versions(hello: Hello) -> str:
    return f"{hello.name} speaks versions {hello.oldest} to {hello.version}"


def _tree(hello: Hello) -> str:
    return f"{hello.name} belongs to tree {hello.tree}"


def _place(hello: Hello) -> str:
    return f", the child at {hello.addresses[0]}" if hello.addresses else ""
