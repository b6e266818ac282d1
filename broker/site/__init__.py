"""The node's half of the port to its site's broker: which names pass, and the desk that keeps the bridge."""

from broker.site.desk import SiteDesk, desk_of

__all__ = ["SiteDesk", "desk_of"]
