"""Permits of a chain, from its table."""

from dataclasses import replace

import pytest

from config.errors import ConfigurationError
from config.fleet import SiteRow, sites
from config.model import Child
from treeconnector.permits import OWN

HQ = SiteRow(name="hq", role="root", address="hq.example.com")
UK = SiteRow(name="uk", role="branch", parent="hq", address="uk.example.com")
YORK = SiteRow(name="york", role="leaf", parent="uk", consume="prices/# store/{name}/#", send="till@hq")
BATH = SiteRow(name="bath", role="leaf", parent="uk", consume="prices/#")


def test_a_parent_names_its_children_with_what_they_may_do() -> None:
    hq, uk, york, bath = sites([HQ, UK, YORK, BATH])
    lifted = (*OWN, "prices/#", "store/{name}/#")
    sent = (*OWN, "till@hq")
    assert hq.children == (
        Child(name="uk", role="branch", consume=lifted, send=sent, nodes=("york", "bath")),
    )
    assert uk.children == (
        Child(name="york", role="leaf", consume=lifted, send=sent),
        Child(name="bath", role="leaf", consume=(*OWN, "prices/#")),
    )
    assert york.children == bath.children == ()


def test_a_node_of_a_mesh_may_have_the_others_beside_it_and_all_have_the_same_children() -> None:
    first, second = (replace(UK, name=f"uk-{n}", address=f"uk-{n}", mesh="uk") for n in (1, 2))
    hq, one, two, *_ = sites([HQ, first, second, replace(YORK, parent="uk-2")])
    assert [(child.name, child.nodes) for child in hq.children] == [
        ("uk-1", ("york", "uk-2")),
        ("uk-2", ("york", "uk-1")),
    ]
    assert [child.name for child in one.children] == ["york"]
    assert one.children == two.children


def test_a_table_that_grants_nothing_names_the_children_and_what_is_below_a_branch() -> None:
    hq, uk, *stores = sites([HQ, UK, replace(YORK, consume="", send=""), replace(BATH, consume="")])
    assert hq.children == (Child(name="uk", role="branch", nodes=("york", "bath")),)
    assert uk.children == (Child(name="york", role="leaf"), Child(name="bath", role="leaf"))
    assert all(site.children == () for site in stores)


@pytest.mark.parametrize(("column", "text"), [("consume", "till@hq"), ("send", "a+")])
def test_what_is_no_rule_is_named_with_its_place(column: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{text[:4]}") as raised:
        sites([HQ, UK, replace(YORK, **{column: text}, file="sites.csv", line=4)])  # type: ignore[arg-type]
    assert "sites.csv:4" in str(raised.value)
    assert column in str(raised.value)
