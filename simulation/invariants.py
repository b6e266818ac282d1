"""What must hold in a tree at rest: every node's routes are exactly those that follow from who reads what.

Law (rules 2 to 5): a key that is wanted at a node is known to all its ancestors, each through its child on
the way, and, but for domain routes, to all its descendants, each through its parent, as far as `advise_down`
lets it through; and to nobody else. In a mesh each node knows besides what is wanted at the others
themselves, and to whom they have a line. Both ends of a link agree on what was offered, and a child's chain
of names is its parent's and its own.
"""

from collections.abc import Iterable, Sequence

from sapwood.protocol.destinations import Destination, Kind, domain
from sapwood.protocol.names import LOCAL
from simulation.site import Site
from treeconnector.advertiser import ADVISE_DOWN, Advertiser
from treeconnector.interest_keys import destination_of

Routes = dict[str, set[tuple[Destination, str]]]


def check_routes(sites: Sequence[Site]) -> None:
    """Raise `AssertionError`, naming node and route, if a tree in which all is up and quiet is not right."""
    expected = expected_routes(sites)
    for site in sites:
        core = site.core
        actual = {(route.key, route.gateway) for route in core.table.routes() if route.gateway != LOCAL}
        lacking, beyond = expected[site.name] - actual, actual - expected[site.name]
        assert not lacking, f"{site.name} lacks {_shown(lacking)}"
        assert not beyond, f"{site.name} has {_shown(beyond)}, which nobody wants there"
        asleep = [route for route in core.table.routes() if not route.live]
        assert not asleep, f"{site.name}: {asleep[0].key} through {asleep[0].gateway} is dormant"
    by_name = {each.name: each for each in sites}
    for site in sites:
        for parent in parents_of(site, by_name):
            assert parent.core.offers.down is not None
            _check_link(site, parent, site.core.offers.up, parent.core.offers.down)
            expected_chain = [site.name, parent.core.mesh.name, *parent.core.ancestry.chain[1:]]
            assert site.core.ancestry.chain == expected_chain, (
                f"{site.name} has the chain {site.core.ancestry.chain}"
            )
        for other in _beside(site, by_name):
            assert site.core.offers.beside is not None
            assert other.core.offers.beside is not None
            _check_link(site, other, site.core.offers.beside, other.core.offers.beside)


def check_interest(sites: Sequence[Site]) -> None:
    """Raise `AssertionError` unless each node that asks for topics or queues knows which are wanted off its
    way.
    """
    by_name = {site.name: site for site in sites}
    for site in sites:
        below = {other.name for other in sites if site in _ways_up(other, by_name)}
        for key, question in site.core.upward.questions.items():
            asked = destination_of(key)
            readers = {other.name for other in sites if _reads(other, asked)}
            expected = bool(readers - below)
            assert question.answer is expected, (
                f"{site.name} was told {question.answer} of {asked}, which {sorted(readers)} want"
            )


def _reads(site: Site, asked: Destination) -> bool:
    table = site.core.table
    if asked.kind == Kind.TOPIC:
        return bool(table.match(asked.name).local)
    return table.route(asked, LOCAL) is not None


def _ways_up(site: Site, by_name: dict[str, Site]) -> list[Site]:
    """A site and all that are above it."""
    above = [each for parent in parents_of(site, by_name) for each in _ways_up(parent, by_name)]
    return [site, *above]


def parents_of(site: Site, by_name: dict[str, Site]) -> list[Site]:
    """The parents that a site's file names, and the other nodes of their mesh."""
    named = [by_name[name] for name in site.ways if name in by_name]
    found = {each.name: each for parent in named for each in (parent, *_beside(parent, by_name))}
    return list(found.values())


def _beside(site: Site, by_name: dict[str, Site]) -> list[Site]:
    return [by_name[name] for name in sorted(site.core.mesh.members)]


def expected_routes(sites: Sequence[Site]) -> Routes:
    """The routes of every node, but for its local ones, as (key, gateway)."""
    by_name = {site.name: site for site in sites}
    children: dict[str, list[Site]] = {}
    for site in sites:
        for parent in parents_of(site, by_name):
            children.setdefault(parent.name, []).append(site)
    found: Routes = {site.name: set() for site in sites}
    for site in sites:
        local = list(site.core.table.routes_of(LOCAL))
        _tell_above(site, local, by_name, found)
        _tell_below(site, local, children, found)
        lines = [*children.get(site.name, ()), *parents_of(site, by_name)]
        for other in _beside(site, by_name):
            found[other.name].update((key, site.name) for key in local)
            found[other.name].update((domain(line.name), site.name) for line in lines)
    return found


def _tell_above(site: Site, keys: list[Destination], by_name: dict[str, Site], found: Routes) -> None:
    for parent in parents_of(site, by_name):
        found[parent.name].update((key, site.name) for key in keys)
        _tell_above(parent, keys, by_name, found)


def _tell_below(
    site: Site, keys: Iterable[Destination], children: dict[str, list[Site]], found: Routes
) -> None:
    kinds = ADVISE_DOWN[site.settings.advise_down]
    told = [key for key in keys if key.kind in kinds and key.kind != Kind.DOMAIN]
    if told:
        for child in children.get(site.name, ()):
            found[child.name].update((key, site.name) for key in told)
            _tell_below(child, told, children, found)


def _check_link(site: Site, parent: Site, upward: Advertiser, downward: Advertiser) -> None:
    """What was offered on a link is what is held at its other end, both ways."""
    ours, theirs = site.core.neighbours[parent.name], parent.core.neighbours[site.name]
    assert ours.up, f"the link between {site.name} and {parent.name} is not up: {ours.error}"
    assert theirs.up, f"the link between {site.name} and {parent.name} is not up: {theirs.error}"
    for offers, held, teller, hearer in (
        (upward, theirs.held, site, parent),
        (downward, ours.held, parent, site),
    ):
        assert (offers.count, offers.digest) == (held.count, held.digest), (
            f"{teller.name} has told {offers.count} routes, {hearer.name} holds {held.count}, or others"
        )


def _shown(routes: set[tuple[Destination, str]]) -> str:
    key, gateway = min(routes)
    more = f", and {len(routes) - 1} more" if len(routes) > 1 else ""
    return f"{key} through {gateway}{more}"


def check_nothing_counts(site: Site) -> None:
    """Where nothing waits, nothing is counted as if it did; else a queue or spool stays full for ever."""
    custody = site.core.custody
    assert not any(custody.spools.values()), f"{site.name} counts {custody.spools} of nothing"
    for name, place in custody.queues.items():
        if name != "dead":
            counts = place.size, place.together, len(place.waiting), place.senders
            assert not any(counts), f"{site.name} counts {counts} of nothing in {name}"
