"""From a site's file to what its children may do."""

from broker.grants import Grants
from config.model import Child, Permits, Site
from treeconnector.permits import OWN, Grant


def of(child: str, *children: Child, **permits: tuple[str, ...] | str) -> Grant | None:
    return Grants(Site(name="hq", permits=Permits(**permits), children=children)).of(child)  # type: ignore[arg-type]


def test_a_file_without_rules_grants_what_is_below_a_childs_own_name() -> None:
    assert of("york") == Grant("hq", "york", OWN, OWN, ())
    assert of("york", Child(name="york", max_routes=5)) == Grant("hq", "york", OWN, OWN, ())


def test_a_file_that_is_open_grants_everything() -> None:
    assert of("york", default="open") is None
    assert repr(Grants(Site(name="hq", permits=Permits(default="open")))) == "<Grants of hq open>"


def test_a_rule_for_one_changes_nothing_for_the_others() -> None:
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
    assert repr(found) == "<Grants of hq>"
