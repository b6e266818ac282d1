"""The sections that say who may be a child, and what children may do.

The rules of the lists, and what they mean, stand in `treeconnector.permits`.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from config.channels import CHANNELS
from config.fields import section, value, values
from config.kinds import Choice, Size, Text
from config.values import COUNT, NAME, NODETYPE, PATH, VARIABLE
from treeconnector.permit_patterns import NAME as CHILD

_TEXT: Final = r"[^/+#@{}\t\n\r]*"
_LEVEL: Final = rf"({_TEXT}(\{{name\}}{_TEXT})?|\+|#)"
_NAMES: Final = rf"((queue|topic):)?{_LEVEL}(/{_LEVEL}){{0,127}}"
_NODE: Final = r"[A-Za-z0-9._\-*]{0,64}(\{name\}[A-Za-z0-9._\-*]{0,64})?"
_EMPTY: Final = ("", "queue:", "topic:")
CONSUME: Final = Text(
    f"a name or pattern of topics and queues, such as prices/#, topic:store/{CHILD}/# or queue:orders; "
    "'+' is any one level, '#' any number of them, '*' any text within a level; or nothing",
    _NAMES,
    refused=_EMPTY,
)
SEND: Final = Text(
    f"a name or pattern of topics and queues, such as store/{CHILD}/# or queue:orders, or of cells, such as "
    "till@hq; '+' is any one level, '#' any number of them, '*' any text within a level; or nothing",
    rf"{_NAMES}(@{_NODE})?",
    refused=_EMPTY,
)
NODES: Final = Text(
    f"the name of a node, in which '*' is any text and {CHILD} the child; or nothing", _NODE, refused=("",)
)
_ONLY: Final = "; with any, only those"


@section
class Child:
    """One child. Where a node names children, others are refused."""

    name: str = value(NAME, "the child's name", example="store-0042")
    role: Literal["leaf", "branch"] | None = value(
        NODETYPE,
        "what this child is, and nothing else; without it a leaf, or either where it may have `nodes`",
        default=None,
        example="branch",
    )
    secret_env: str | None = value(
        VARIABLE, "environment variable that holds the child's secret", default=None, aside=True
    )
    secret_file: Path | None = value(
        PATH, "file that holds the child's secret", default=None, example="secrets/store-0042"
    )
    max_routes: int | None = value(
        COUNT,
        "most routes that this child may advertise; without it `max_routes_per_link`",
        default=None,
        example=5000,
    )
    consume: tuple[str, ...] = values(
        CONSUME,
        "what this child may consume, instead of `permits`",
        item="pattern",
        default=(),
        example=("prices/#", "store/{name}/#"),
    )
    send: tuple[str, ...] = values(
        SEND,
        "what this child may send, instead of `permits`",
        item="pattern",
        default=(),
        example=("store/{name}/#", "queue:orders"),
    )
    nodes: tuple[str, ...] = values(
        NODES,
        "nodes that this child may have below it, instead of `permits`",
        item="pattern",
        default=(),
        example=("{name}-*",),
    )
    opens: tuple[str, ...] = values(
        CHANNELS,
        "forwards of other nodes that this child, and nodes below it, may open channels to, instead of "
        "`permits`",
        item="channel",
        default=(),
        example=("prices-web@hq",),
    )
    serves: tuple[str, ...] = values(
        CHANNELS,
        "forwards of this child, and of nodes below it, that others may open channels to, instead of "
        "`permits`",
        item="channel",
        default=(),
        example=("till-web@{name}",),
    )


@section
class Permits:
    """What children may do: each has its own rules, else these, else what is below its own name."""

    FORMER: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"enforce": "children have permits in any case; leave it out, or say that the default is open"}
    )
    default: Literal["own", "open"] = value(
        Choice(("own", "open")),
        "what children may do where no rule is written; own: consume and send what is below their own "
        "names, and have no nodes below them; open: everything, which is said without any rule: one stolen "
        "child then reads, takes and writes for all",
        default="own",
        alone=True,
    )
    consume: tuple[str, ...] = values(
        CONSUME,
        "topics and queues that children may consume" + _ONLY,
        item="pattern",
        default=(),
        example=("prices/#", "store/{name}/#"),
    )
    send: tuple[str, ...] = values(
        SEND,
        "topics, queues and cells that children may send to" + _ONLY,
        item="pattern",
        default=(),
        example=("store/{name}/#", "queue:orders", "stock@hq"),
    )
    nodes: tuple[str, ...] = values(
        NODES,
        "nodes that children may have below them, beside themselves",
        item="pattern",
        default=(),
        example=("{name}-*",),
    )
    opens: tuple[str, ...] = values(
        CHANNELS,
        "forwards of other nodes that children, and nodes below them, may open channels to; without any, no "
        "channels",
        item="channel",
        default=(),
        example=("prices-web@hq",),
    )
    serves: tuple[str, ...] = values(
        CHANNELS,
        "forwards of children, and of nodes below them, that others may open channels to; without any, none",
        item="channel",
        default=(),
        example=("till-web@{name}",),
    )
    max_waiting: int | None = value(
        Size(1),
        "most bytes that may wait here of what one child sent, before it is asked to keep the rest; without "
        "it a quarter of the spool",
        default=None,
        example=1073741824,
    )
