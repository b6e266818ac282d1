"""The broker of the site's applications; where they use the node itself, it is up and has nothing."""

from broker.core.site.site import SiteClient
from broker.metrics.exposition import Family, counter, gauge
from broker.site.desk import SiteDesk


def families(core: SiteClient, desk: SiteDesk | None) -> list[Family]:
    taken, given = core.totals
    return [
        gauge("sapwood_site_broker_up", "Whether the site's broker is joined: 1, else 0.").add(
            int(desk is None or desk.state == "running")
        ),
        gauge("sapwood_site_broker_consumers", "Queues and topic filters with consumers there.").add(
            len(core.consumers)
        ),
        gauge("sapwood_site_broker_wanted", "Queues and topic filters that are taken from there.").add(
            len(core.wanted) if desk is not None else 0
        ),
        gauge("sapwood_site_broker_waiting", "Messages that are here for it.").add(core.waiting),
        gauge("sapwood_site_broker_unanswered", "Messages it was given and has not answered.").add(
            core.unanswered
        ),
        gauge("sapwood_site_broker_held", "Messages taken from it that the node has no room for.").add(
            desk.held if desk is not None else 0
        ),
        counter("sapwood_site_broker_taken", "Messages that were taken from it.").add(taken),
        counter("sapwood_site_broker_given", "Messages it was given, again ones included.").add(given),
        counter("sapwood_site_broker_repeated", "Messages it repeated and that were known.").add(
            core.repeated
        ),
    ]
