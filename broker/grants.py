"""What the site's file lets each child do: its own rules, else those for all, else what is below its name."""

from config.model import Child, Permits, Site
from treeconnector.permits import OWN, Grant


class Grants:
    """Of one site; made anew when its file is read again."""

    def __init__(self, site: Site) -> None:
        self._by = site.name
        self._permits = site.permits
        self._children = {child.name: child for child in site.children}
        written = _has_rules(site.permits) or any(map(_has_rules, site.children))
        self.enforced = site.permits.enforce or written

    def __repr__(self) -> str:
        return f"<Grants of {self._by} {'enforced' if self.enforced else 'not enforced'}>"

    def of(self, child: str) -> Grant | None:
        """None: it may do everything."""
        if not self.enforced:
            return None
        own = self._children.get(child) or Child(name=child)
        return Grant(
            by=self._by,
            child=child,
            consume=own.consume or self._permits.consume or OWN,
            send=own.send or self._permits.send or OWN,
            nodes=own.nodes or self._permits.nodes,
        )

    def most_routes(self, child: str) -> int | None:
        """None: as many as any neighbour."""
        own = self._children.get(child)
        return own.max_routes if own is not None else None


def _has_rules(given: Child | Permits) -> bool:
    return bool(given.consume or given.send or given.nodes)
