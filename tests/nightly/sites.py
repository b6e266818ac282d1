"""The tree of the kill rounds: its flows, the programs of its sites, and what each child may do.

         hq === hq-2                one root of two nodes
          |      |
     north        south             each is linked with both
     |   |        |   |
    york leeds  bath exeter

Law: permits are closed, as they are where nothing is written; a child has what its programs need.
"""

from typing import Any

from checker import Flow

CORES = ("hq", "hq-2")
REGIONS = {"north": ("york", "leeds"), "south": ("bath", "exeter")}
AT_BROKERS = {"leeds": "mosquitto", "exeter": "rabbitmq"}
"""Sites whose programs use a broker of their own; they are there with brokers only."""
Program = dict[str, Any]
Rules = dict[str, list[str]]

FLOWS = {
    "york-sales": Flow(("hq-reads", "hq-2-reads")),
    "bath-sales": Flow(("hq-reads", "hq-2-reads")),
    "prices": Flow(("york-reads",)),
    "work": Flow(("york-reads", "bath-reads")),
    "transfers": Flow(("bath-reads",)),
    "offers": Flow(("york-reads", "bath-reads"), shared=False),
    "alarms": Flow(("hq-reads", "hq-2-reads"), shared=False),
}
SITE_FLOWS = {
    "leeds-reports": Flow(("hq-reads",)),
    "labels": Flow(("leeds",)),
    "exeter-reports": Flow(("hq-reads",)),
    "orders": Flow(("exeter",)),
}
PROGRAMS: dict[str, Program] = {
    "hq-sends": {
        "sends": {"prices": "queue:york/prices", "work": "queue:work", "offers": "topic:offers/today"},
        "calls": {"stock-of-york": "york/stock"},
    },
    "york-sends": {
        "sends": {"york-sales": "queue:sales", "alarms": "topic:alarms/york", "transfers": "queue:transfers"},
        "calls": {"stock-of-hq": "stock"},
    },
    "bath-sends": {"sends": {"bath-sales": "queue:sales"}},
    "hq-reads": {"reads": {"queue:sales": "", "topic:alarms/#": "alarms"}, "serves": ["stock"]},
    "hq-2-reads": {"reads": {"queue:sales": "", "topic:alarms/#": "alarms-2"}},
    "york-reads": {
        "reads": {"queue:york/prices": "", "queue:work": "", "topic:offers/#": "offers-york"},
        "serves": ["york/stock"],
    },
    "bath-reads": {"reads": {"queue:work": "", "queue:transfers": "", "topic:offers/#": "offers-bath"}},
}
SITE_PROGRAMS: dict[str, Program] = {
    "leeds": {
        "sends": {"leeds-reports": "queue/reports"},
        "reads": {"$share/tills/queue/labels": "labels"},
    },
    "exeter": {"sends": {"exeter-reports": "reports"}, "reads": {"orders": "orders"}},
}
PERMITS: dict[str, Rules] = {
    "york": {
        "consume": ["queue:york/#", "queue:work", "topic:offers/#"],
        "send": ["queue:sales", "queue:transfers", "queue:stock", "topic:alarms/york"],
    },
    "bath": {
        "consume": ["queue:work", "queue:transfers", "topic:offers/#"],
        "send": ["queue:sales"],
    },
    "leeds": {"consume": ["queue:labels"], "send": ["queue:reports"]},
    "exeter": {"consume": ["queue:orders"], "send": ["queue:reports"]},
}


def children_of_region(region: str) -> list[dict[str, Any]]:
    return [{"name": name, "role": "leaf"} | PERMITS[name] for name in REGIONS[region]]


def children_of_root() -> list[dict[str, Any]]:
    """A region may do what its stores may, and has them below it."""
    return [
        {"name": region, "role": "branch", "nodes": list(stores)}
        | {
            what: sorted({rule for name in stores for rule in PERMITS[name][what]})
            for what in PERMITS["york"]
        }
        for region, stores in REGIONS.items()
    ]
