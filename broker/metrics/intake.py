"""Connections at the node's ports, and those that were not taken."""

from broker.intake import Admission
from broker.intake.admission import REASONS
from broker.metrics.exposition import Family, counter, gauge


def families(admission: Admission) -> list[Family]:
    refused = counter(
        "sapwood_connections_refused",
        "Connections that were closed or not accepted because there were too many, by what there was too much"
        " of.",
    )
    for reason in REASONS:
        refused.add(admission.turned_away[reason], reason=reason)
    kinds = {
        "stranger": admission.strangers,
        "application": admission.applications,
        "link": admission.links,
    }
    open_now = gauge(
        "sapwood_connections",
        "Connections at the node's ports: of strangers, which have not logged in, of applications, of links.",
    )
    for kind, count in kinds.items():
        open_now.add(count, kind=kind)
    return [open_now, refused]
