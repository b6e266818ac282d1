"""`sapwood route add|remove`: how messages go from now on."""

from typing import Final

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import NodeApi
from broker.cli.output import print_json
from treeconnector.static_routes import WORDS

_FORMS: Final[dict[str, str]] = {kind: words.form(kind) for kind, words in WORDS.items()}


def change_route(api: NodeApi, method: str, kind: str, words: list[str], node: str, *, as_json: bool) -> None:
    """Add or remove a route. Raises `CommandError`."""
    if kind not in _FORMS:
        raise CommandError(f"{kind!r} is no kind of route: expected {', '.join(_FORMS)}", WRONG_USE)
    if len(words) != len(_FORMS[kind].split()) - 1:
        raise CommandError(f"expected {_FORMS[kind]}, found {kind} {' '.join(words)}", WRONG_USE)
    *destination, gateway = words
    body = {"kind": kind, "destination": "".join(destination), "gateway": gateway, "node": node}
    done = api.change(method, "/api/routes", body)
    if as_json:
        print_json(done)
        return
    said = "is set" if method == "POST" else "is removed"
    what = " ".join(filter(None, (done["kind"], done["destination"], "->", done["gateway"])))
    print(f"at {done['node']} the route {what} {said}")
