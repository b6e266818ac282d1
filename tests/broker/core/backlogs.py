"""What the tests of long queues have in common: a node that keeps hardly any of them in memory."""

from dataclasses import replace

from simulation.chaos import Chaos
from simulation.forest import QUICK, Forest
from simulation.site import Site

SMALL = replace(QUICK, cache_copies=512)
"""Eight copies of a queue stay in memory, where more than twice as many wait."""


def forest_of(site: Site) -> Forest:
    assert isinstance(site.world, Forest)
    return site.world


def send(site: Site, count: int, destination: str = "queue:sales", first: int = 0, **properties: int) -> None:
    producer = forest_of(site).producer(site.name, f"producer-{first}-{destination}")
    for number in range(first, first + count):
        producer.send(destination, b"%d" % number, **properties)
        forest_of(site).settle()


def warm(site: Site, name: str = "queue:sales") -> int:
    place = site.core.custody.queues[name]
    return len(place.waiting.warm)


def read(site: Site, count: int, destination: str = "queue:sales", **options: int) -> list[bytes]:
    reader = forest_of(site).consumer(site.name, destination, **options)
    forest_of(site).settle(1.0)
    assert len(reader.payloads) == count
    return reader.payloads


def payloads(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Crowded(Chaos):
    """Any history, with hardly a copy in memory."""

    caches = (64,)
