"""What the site's file lets each child do: its own rules, else those for all, else what is below its name."""

from collections.abc import Callable
from logging import Logger
from typing import TYPE_CHECKING, Final

from config.model import Child, Site
from treeconnector.permits import LISTS, Grant

if TYPE_CHECKING:
    from broker.core.node import NodeCore

OPEN: Final = (
    "permits are open: every child may read, take and write everything, so one that is stolen can, too;"
    " say in permits what children may do, and leave `open` out"
)


class Grants:
    """Of one site; made anew when its file is read again. `open`: the file lets children do everything.

    `invited`: the role in which a child joined by invitation, '' if it did not.
    """

    def __init__(self, site: Site) -> None:
        self._by = site.name
        self._permits = site.permits
        self._children = {child.name: child for child in site.children}
        self.open = site.permits.default == "open"
        self.invited: Callable[[str], str] = lambda child: ""

    def __repr__(self) -> str:
        return f"<Grants of {self._by}{' open' if self.open else ''}>"

    def tell(self, core: "NodeCore") -> None:
        """From now on this counts."""
        core.permits.configure(self.of, self.most_routes, self.role_of)

    @property
    def warnings(self) -> list[str]:
        """What a person who looks at the node is to be told."""
        return [OPEN] if self.open else []

    def warn(self, log: Logger) -> None:
        for warning in self.warnings:
            log.warning("! %s", warning)

    def of(self, child: str) -> Grant | None:
        """None: it may do everything."""
        if self.open:
            return None
        own = self._children.get(child) or Child(name=child)
        rules = {
            name: getattr(own, name) or getattr(self._permits, name) or default
            for name, default in LISTS.items()
        }
        return Grant(self._by, child, **rules)

    def role_of(self, child: str) -> str:
        """The role that its entry gives a child, or its invitation; '' where neither does."""
        own = self._children.get(child)
        return own.role if own is not None and own.role else self.invited(child)

    def most_routes(self, child: str) -> int | None:
        """None: as many as any neighbour."""
        own = self._children.get(child)
        return own.max_routes if own is not None else None
