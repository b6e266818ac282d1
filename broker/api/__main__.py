"""`python -m broker.api` writes anew what operations, commands and kinds of routes are told in elsewhere.

That is `broker/cli/commands.json`, and `route_kinds.js` of the dashboard.
"""

import json
from pathlib import Path
from typing import Final

from broker.api.table import catalogue
from treeconnector.static_routes import FORMS

_BROKER: Final = Path(__file__).parents[1]
COMMANDS: Final = _BROKER / "cli" / "commands.json"
ROUTE_KINDS: Final = _BROKER / "http" / "dashboard" / "static" / "route_kinds.js"
_LEADS_TO: Final = {
    "neighbour": "Neighbour",
    "address": "Address that is meant",
    "queue": "Queue of the node",
}


def text() -> str:
    """The catalogue, a command a line."""
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in catalogue()) + "\n]\n"


def route_kinds() -> str:
    """A module for the dashboard: how a person sets each kind of route."""
    rows = "".join(
        f'  {kind}: {{ text: "{kind}: {form.text}", gateway: "{_LEADS_TO[form.to]}",'
        f" address: {str(form.addressed).lower()} }},\n"
        for kind, form in FORMS.items()
    )
    return (
        "// Written by `python -m broker.api`: where each kind of route leads; is it of one address?\n\n"
        f"export const KINDS = {{\n{rows}}};\n"
    )


if __name__ == "__main__":
    COMMANDS.write_text(text(), encoding="utf-8")
    ROUTE_KINDS.write_text(route_kinds(), encoding="utf-8")
