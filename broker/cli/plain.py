"""Plain commands: each asks a node one thing and prints the answer. They are made of `commands.json`, which
`python -m broker.api` writes of the table of operations, so that nothing of them is said twice.

Law: what the table stands on is not imported here; a command imports its view when it runs.
"""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from broker.cli.errors import FAILED, WRONG_USE, CommandError
from broker.cli.options import Limit, OperatorOptions, Yes, asks_a_node, group

Fields = dict[str, Any]
_FILE: Final = Path(__file__).with_name("commands.json")
_KINDS: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "strings": list[str],
}
_GROUPS: Final = {
    "alarm": "Alarms: test the webhook.",
    "dead": "Dead letters: list, route again, throw away.",
    "permits": "What children may consume and send.",
    "queue": "A queue and its messages: create, look, move, throw away, delete.",
    "session": "Close a client's session.",
}


def add_to(app: typer.Typer, commands: list[Fields] | None = None) -> None:
    """Put commands on the program, all of the file unless they are given; each into its group."""
    for said in json.loads(_FILE.read_text(encoding="utf-8")) if commands is None else commands:
        of, _, name = said["name"].rpartition(" ")
        _group(app, of).command(name)(_command(said))


def _group(app: typer.Typer, name: str) -> typer.Typer:
    """The group of that name, a new one if there is none."""
    if not name:
        return app
    found = next((each.typer_instance for each in app.registered_groups if each.name == name), None)
    if found is None:
        found = group(_GROUPS.get(name, f"{name.capitalize()}."))
        app.add_typer(found, name=name)
    return found


def _command(said: Fields) -> Any:
    def run(*, asked: OperatorOptions, yes: bool = False, **given: Any) -> None:
        given = {name.rstrip("_"): value for name, value in given.items()}
        wrong = _hook(said["view"], "wrong")
        if wrong is not None and (text := wrong(given)):
            raise CommandError(text, WRONG_USE)
        if said["sure"] and not (yes or given.get(said["unless"])) and sys.stdin.isatty():
            typer.confirm(said["sure"].format(url=asked.url, **given), abort=True, err=True)
        view_only = {name: given.pop(name) for name in said["switches"]}
        _show(said, _ask(said, given, asked), {**given, **view_only, "url": asked.url}, asked)

    shown = [_parameter(each) for each in said["parameters"]]
    shown += [_switch(name, text) for name, text in said["switches"].items()]
    if said["sure"]:
        shown.append(_keyword("yes", Yes, False))
    run.__doc__ = said["help"]
    run.__annotations__ = {}
    run.__signature__ = Signature([*shown, _keyword("asked", OperatorOptions)])  # type: ignore[attr-defined]
    return asks_a_node(run)


def _parameter(said: Fields) -> Parameter:
    # The line of the name keeps it apart from options of every command, such as --key.
    name, kind, default = f"{said['name']}_", _KINDS[said["kind"]], said["default"]
    if name == "limit_":
        return _keyword(name, Limit, default)
    if place := said["argument"]:
        optional = place.startswith("[")
        kind = kind | None if optional and default is None else kind
        argument = typer.Argument(metavar=place.strip("[]"), help=said["text"])
        return _keyword(name, Annotated[kind, argument], default if optional else Parameter.empty)
    kind = kind | None if default is None else kind
    option = typer.Option(
        f"--{said['name'].replace('_', '-')}", help=said["text"], min=said["least"], max=said["most"]
    )
    return _keyword(name, Annotated[kind, option], default)


def _switch(name: str, text: str) -> Parameter:
    return _keyword(f"{name}_", Annotated[bool, typer.Option(f"--{name}", help=text)], False)


def _keyword(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _ask(said: Fields, given: Fields, asked: OperatorOptions) -> Fields:
    from broker.cli.node_api import part

    query, body = dict(given), None
    in_body = [each["name"] for each in said["parameters"] if each["in_body"]]
    if in_body:
        body = {name: value for name in in_body if (value := query.pop(name)) not in (None, [])}
    in_path = [each["name"] for each in said["parameters"] if each["in_path"]]
    path = said["path"].format(**{name: part(str(query.pop(name))) for name in in_path})
    if said["method"] != "GET":
        return asked.api.change(said["method"], path, body, **query)
    if said["pages"]:
        first, *others = said["pages"]
        return asked.api.pages(path, first, query.pop("limit"), *others, **query)
    return asked.api.get(path, **query)


def _show(said: Fields, found: Fields, given: Fields, asked: OperatorOptions) -> None:
    """Print an answer, and raise `CommandError` where it says that something failed."""
    from broker.cli.output import print_json

    if asked.json:
        print_json(found)
    else:
        _call(_hook(said["view"]) or _print_plain, found, given)
    if note := _hook(said["view"], "note"):
        note(found, given, asked.api)
    if (failed := _hook(said["view"], "failed")) and (text := _call(failed, found, given)):
        raise CommandError(text, FAILED)


def _hook(view: str, what: str = "") -> Any:
    """A function of an operation's view, None where it has none. See `broker.cli.views`."""
    noun, _, operation = view.partition(":")
    where = f"broker.cli.views.{noun}"
    module = import_module(where) if find_spec(where) is not None else None
    return getattr(module, f"{operation}_{what}" if what else operation, None)


def _call(view: Any, found: Fields, given: Fields) -> Any:
    return view(found) if len(signature(view).parameters) == 1 else view(found, given)


def _print_plain(found: Fields) -> None:
    """An answer that has no view: a line for each field, and for each item of a list."""
    from broker.cli.output import printable

    for name, value in found.items():
        lines = value if isinstance(value, list) else [value]
        for each in lines:
            fields = each.items() if isinstance(each, dict) else ()
            text = ", ".join(f"{key} {item}" for key, item in fields) if fields else str(each)
            print(printable(f"{name}: {text}"))
