"""From a site's file to what its children may do."""

from broker.grants import Grants
from config.model import Child, Permits, Site
from treeconnector.permits import OWN, Grant


def of(child: str, *children: Child, **permits: tuple[str, ...] | bool) -> Grant | None:
    return Grants(Site(name="hq", permits=Permits(**permits), children=children)).of(child)  # type: ignore[arg-type]


def test_a_file_without_rules_grants_everything() -> None:
    assert of("york") is None
    assert of("york", Child(name="york", max_routes=5)) is None


def test_permits_that_are_enforced_grant_what_is_below_a_childs_own_name() -> None:
    assert of("york", enforce=True) == Grant("hq", "york", OWN, OWN, ())


def test_one_rule_for_anybody_gives_all_children_permits() -> None:
    bath = Child(name="bath", send=("orders",))
    assert of("york", bath) == Grant("hq", "york", OWN, OWN, ())
    assert of("bath", bath) == Grant("hq", "bath", OWN, ("orders",), ())


def test_a_childs_own_rules_stand_instead_of_those_for_all() -> None:
    bath = Child(name="bath", consume=("payroll",), nodes=("bath-*",))
    general = {"consume": ("prices/#",), "send": ("orders",)}
    assert of("bath", bath, **general) == Grant("hq", "bath", ("payroll",), ("orders",), ("bath-*",))
    assert of("york", bath, **general) == Grant("hq", "york", ("prices/#",), ("orders",), ())


def test_most_routes_are_a_childs_own() -> None:
    found = Grants(Site(name="hq", children=(Child(name="york", max_routes=5),)))
    assert (found.most_routes("york"), found.most_routes("bath")) == (5, None)
    assert repr(found) == "<Grants of hq not enforced>"
