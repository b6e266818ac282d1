"""What the HTTP side needs of the site's configuration. Sizes in bytes, times in seconds."""

from dataclasses import dataclass, field
from typing import Final

from broker.entrance.operators import Operators
from broker.metrics.label_limit import Labels

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`operators`: who may see the status and administrate. `children`: False on a leaf, whose link
    endpoint refuses. `certificates`: links are for callers that show a certificate. `max_unconfirmed`: bytes
    of sends that one streaming client may have under way before it is read no further. `max_wait`: longest
    blocking transfer. `labels`: how many names `/metrics` may have. `subscribe_creates`: to subscribe makes a
    queue that is not there.
    """

    operators: Operators = field(default_factory=Operators)
    children: bool = True
    certificates: bool = False
    max_frame: int = 64 * 1024
    max_message: int = 16 * MIB
    max_unconfirmed: int = 64 * MIB
    max_wait: float = 3600.0
    labels: Labels = field(default_factory=Labels)
    subscribe_creates: bool = True
