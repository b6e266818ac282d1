"""The dashboard reads no field that no answer has: its scripts are held against the OpenAPI description."""

import re
from pathlib import Path

import pytest

from broker.api.table import OPERATIONS
from broker.http import dashboard
from broker.http.api.description import describe
from treeconnector.static_routes import FORMS

STATIC = Path(dashboard.__file__).parent / "static"
HELD: tuple[str, ...] = (
    "row",
    "answer",
    "found",
    "told",
    "hop",
    "message",
    "letter",
    "status",
    "queue",
    "detail",
    "child",
)
HELD += ("connection", "consumer", "reader")
OWN: dict[str, set[str]] = {
    "api.js": {"body", "ok", "status"},
    "state.js": {"status", "in_rate", "out_rate"},
    "overview.js": {"in_rate", "out_rate", "length", "other_ways"},
    "tree.js": {
        "above",
        "beside",
        "expandable",
        "expanded",
        "hearsay",
        "kids",
        "level",
        "link",
        "path",
        "self",
    },
    "table.js": {"element", "expandable", "expanded", "level"},
    "consumers.js": {"number", "order", "queue"},
    "advisories.js": {"order"},
    "follow.js": {"order", "queue", "task"},
    "routes.js": {"kinds"},
    "publishing.js": {"expires_in"},
    "queues.js": {"queue"},
    "trace.js": {"hue", "reply"},
}
"""What a script gives its rows itself, or an object of another kind that has such a name has; and of a
site's broker, whose fields are those of its bridge."""


def fields() -> set[str]:
    schemas = describe(OPERATIONS)["components"]["schemas"]
    return {name for schema in schemas.values() for name in schema.get("properties", {})}


def read_of(script: str) -> set[str]:
    """Fields with a line in their names, and whatever is read of what holds an answer."""
    text = re.sub(r"(?m)^\s*//.*$", "", script)
    lined = set(re.findall(r"\.([a-z]+(?:_[a-z0-9]+)+)\b", text))
    held = rf"\b(?:{'|'.join(HELD)})\??\.([a-z_0-9]+)\b(?!\()"
    return lined | set(re.findall(held, text))


@pytest.mark.parametrize("script", sorted(STATIC.rglob("*.js")), ids=lambda path: path.name)
def test_a_script_reads_fields_that_the_api_describes(script: Path) -> None:
    unknown = (
        read_of(script.read_text(encoding="utf-8")) - fields() - OWN.get(script.name, set()) - {"length"}
    )
    assert not unknown, f"{script.name} reads what no answer has"


def test_a_field_that_is_mistyped_is_seen() -> None:
    assert read_of("x.text = row.sinse_s + found?.mesages;") - fields() == {"sinse_s", "mesages"}
    assert "since_s" in fields()


def test_the_dashboard_sets_every_kind_of_route_with_the_fields_that_it_has() -> None:
    script = (STATIC / "route_kinds.js").read_text(encoding="utf-8")
    rows = re.findall(r"^  (\w+): \{ text: .*, address: (true|false) \},$", script, re.M)
    assert rows == [(str(kind), str(words.addressed).lower()) for kind, words in FORMS.items()]
