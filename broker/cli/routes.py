"""`sapwood route add|remove`: how messages go from now on."""

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.node_api import NodeApi
from broker.cli.output import print_json
from treeconnector.static_routes import FORMS


def form_of(kind: str) -> str:
    """How such a route is written. Raises `CommandError`."""
    if kind not in FORMS:
        raise CommandError(f"{kind!r} is no kind of route: expected {', '.join(FORMS)}", WRONG_USE)
    return FORMS[kind].form(kind)


def change_route(api: NodeApi, method: str, kind: str, words: list[str], node: str, *, as_json: bool) -> None:
    """Add or remove a route. Raises `CommandError`."""
    form = form_of(kind)
    if len(words) != len(form.split()) - 1:
        raise CommandError(f"expected {form}, found {kind} {' '.join(words)}", WRONG_USE)
    *destination, gateway = words
    body = {"kind": kind, "destination": "".join(destination), "gateway": gateway, "node": node}
    done = api.change(method, "/api/routes", body)
    if as_json:
        print_json(done)
        return
    said = "is set" if method == "POST" else "is removed"
    what = " ".join(filter(None, (done["kind"], done["destination"], "->", done["gateway"])))
    print(f"at {done['node']} the route {what} {said}")
