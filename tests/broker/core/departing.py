"""How a node of a mesh ends: it lets its children go, hands over what it has, and says its last words."""

from collections.abc import Callable

from simulation.forest import Forest
from treeconnector.link import Event, Link


def depart(forest: Forest, name: str, last_words: Callable[[Link], list[Event]]) -> None:
    core = forest[name].core
    for child in core.context.children():
        if child.link is not None:
            core.admission.handle(child.link, last_words(child.link))
    core.handover.leave()
    forest.settle(2)
    assert core.handover.is_done
    for link in list(core.links.peers):
        core.admission.handle(link, last_words(link))
    forest.settle()
    forest[name].crash()
