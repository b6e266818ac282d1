"""A chain of nodes whose sites use RabbitMQ, for the numbered tests.

hq and the two stores are virtual hosts of one broker; the region between them has none. That is as far apart
as three brokers: no message passes between virtual hosts but through the nodes.
"""

from harness import Network
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications, Reader

SITES = ("hq", "york", "leeds")


class Chain:
    """The network, and the applications of each site."""

    def __init__(self, network: Network, server: RabbitServer, vhosts: dict[str, str]) -> None:
        self.network = network
        self.server = server
        self.at = {site: Applications(server, vhost) for site, vhost in vhosts.items()}
        for site, parent in (("hq", ""), ("north", "hq"), ("york", "north"), ("leeds", "north")):
            settings = {}
            if site in vhosts:
                uri = server.uri(vhosts[site])
                settings["site_broker"] = {"uri": uri, "management": server.management_uri}
            network.add(site, parent, role="branch" if site == "north" else "leaf", **settings)

    async def start(self, *sites: str) -> None:
        """Start nodes, all unless named, and wait until each is with its broker."""
        await self.network.start(*sites)
        for site in self.at:
            if not sites or site in sites:
                await self.until_running(site)

    async def until_running(self, site: str) -> None:
        await self.network.until(
            site, lambda status: status["site_broker"]["state"] == "running", "with its broker"
        )

    async def until_wanted(self, site: str, destination: str) -> None:
        """Wait until the node takes this from its broker."""
        await self.network.until(
            site, lambda status: destination in status["site_broker"]["wanted"], f"asked for {destination}"
        )
        name = destination.partition(":")[2]
        if destination.startswith("queue:"):
            await self.network.until(
                site, lambda status: name in status["site_broker"].get("taking_queues", ()), f"taking {name}"
            )

    def reader(self, site: str, queue: str, *topics: str, **declared: bool) -> Reader:
        return Reader(self.at[site].channel(), queue, *topics, **declared)
