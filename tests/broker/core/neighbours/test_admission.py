"""Two lines of one start of a node: a copy of its running machine is refused, a line that is dead is not."""

from simulation.forest import Forest
from simulation.site import Site
from simulation.wire import Wire


def machine(forest: Forest, key: str) -> Site:
    """york's machine: the same store, start number and incarnation whichever copy of it this is."""
    site = Site(
        forest, "york", "hq", "leaf", forest.settings, forest.links, random_bytes=lambda count: bytes(count)
    )
    forest.sites[key] = site
    site.boot()
    return site


def dial(forest: Forest, site: Site) -> Wire:
    forest.wires.append(Wire(site, forest["hq"]))
    forest.settle(3)
    return forest.wires[-1]


def test_a_copy_of_a_running_machine_is_refused(forest: Forest) -> None:
    """Each superseded the other without end, ten times a second, and began a new epoch each time."""
    forest.add("hq")
    first = dial(forest, machine(forest, "york"))
    copy = machine(forest, "copy")
    dial(forest, copy)
    assert forest.wires == [first]
    assert forest["hq"].core.context.neighbours["york"].link is first.down.source
    why = "'york' is live at 'hq': a copy of its database is running already; stop one of the two"
    assert [each.errors for each in (forest["hq"], copy)] == [[why], [why]]


def test_a_node_that_dials_anew_is_let_in_once_its_old_line_does_not_answer(forest: Forest) -> None:
    forest.add("hq")
    york = machine(forest, "york")
    first = dial(forest, york)
    forest.wires.clear()  # hq does not notice
    york.core.lost(first.up.source, "nothing was heard")
    second = dial(forest, york)
    neighbour = forest["hq"].core.context.neighbours["york"]
    assert (neighbour.link, neighbour.detail.gaps) == (second.down.source, 0)
