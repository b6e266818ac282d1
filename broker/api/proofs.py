"""What proves that the node at the other end of a link is the one that it says it is.

A secret is proven by both ends, whatever the link rides on. A certificate shows on the node's own port only;
at a broker it would be the broker's. There the broker's permissions can keep each child to its own place.
"""

from typing import Final

from config.schemes import shows_certificate
from treeconnector.identity import Shown
from treeconnector.link import Link
from treeconnector.relations import Relation

NOTHING: Final = "nothing"
_LISTED: Final = 3


def proof(link: Link, relation: Relation, shown: Shown, over: str) -> str:
    """In a few words. `shown`: on the carrier; `over`: what it rides on."""
    found = []
    if link.has_secret:
        found.append("the secret of the mesh" if relation is Relation.MESH else "its secret")
    if shown.certified and not link.dials:
        found.append(f"a certificate for {', '.join(sorted(shown.certified)[:_LISTED])}")
    if shown.place and shown.vouched:
        found.append(f"the broker's permissions for {shown.place}")
    if link.dials and shows_certificate(over):
        found.append("the certificate of its port")
    return ", ".join(found) or NOTHING
