"""The command line of a generated module: a command for each function of an interface.

    python -m chain.stock_v1 --queue stock@store-0042 level --article 4711

A session secret stands in $SAPWOOD_SESSION_SECRET, an account in $SAPWOOD_ACCOUNT and $SAPWOOD_PASSWORD.
Numbers and texts are said as they are, true and false by `--open` and `--no-open`, all else as JSON.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from sapwood import sync
from sapwood.client import DEFAULT_ADDRESS
from sapwood.errors import ClientError
from sapwood.options import ClientOptions
from sapwood.stubs import Function, SyncCaller

FAILED: Final = 1
WRONG_USE: Final = 2
_INPUT: Final = "input "


def main(
    interface: str, version: str, functions: Sequence[Function[Any, Any]], words: Sequence[str] | None = None
) -> int:
    """Call the function that the command line names, and print its outputs. Returns an exit code."""
    said = vars(_parser(interface, version, functions).parse_args(words))
    function: Function[Any, Any] = said["function"]
    inputs = {name.removeprefix(_INPUT): value for name, value in said.items() if name.startswith(_INPUT)}
    given = {name: value for name, value in inputs.items() if value is not None}
    try:
        asked = msgspec.convert(given, function.inputs, str_keys=True)
        function.parameters(asked)
    except (msgspec.ValidationError, ValueError) as error:
        return _failed(f"{function.name}: {error}", WRONG_USE)
    try:
        with sync.connect(said["url"], session=said["session"], **_options(said["ca"])) as client:
            caller = SyncCaller(client.rpc, said["queue"], interface, version, said["timeout"])
            outputs = caller.call(function, asked)
    except (ClientError, OSError, ValueError) as error:
        return _failed(str(error), FAILED)
    _print(outputs, as_json=said["json"])
    return 0


def _options(ca: str | None) -> ClientOptions:
    """Of the client; the session secret, or an account with its password, as the environment says them."""
    said = os.environ.get
    return {
        "ca": ca,
        "secret": said("SAPWOOD_SESSION_SECRET"),
        "account": said("SAPWOOD_ACCOUNT", ""),
        "password": said("SAPWOOD_PASSWORD"),
    }


def _failed(said: str, code: int) -> int:
    print(said, file=sys.stderr)
    return code


def _print(outputs: msgspec.Struct, *, as_json: bool) -> None:
    """The outputs as one JSON object, or each on its line: a text as it is, all else as JSON."""
    if as_json:
        print(msgspec.json.encode(outputs).decode())
        return
    for name, value in msgspec.to_builtins(outputs, str_keys=True).items():
        print(f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}")


def _parser(interface: str, version: str, functions: Sequence[Function[Any, Any]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{interface} {version}", description=f"Call a function of the interface {interface} {version}."
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("SAPWOOD_URL", DEFAULT_ADDRESS),
        help="The node's address; $SAPWOOD_URL or %(default)s unless given.",
    )
    parser.add_argument("--queue", default=interface, help="NAME, or NAME@NODE; %(default)s unless given.")
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="%(default)g unless given."
    )
    parser.add_argument(
        "--session", default="", metavar="NAME", help="The session's name; a fresh one unless given."
    )
    parser.add_argument("--ca", metavar="FILE", help="Certificates of authorities that are trusted (PEM).")
    parser.add_argument("--json", action="store_true", help="Print the outputs as one JSON object.")
    commands = parser.add_subparsers(required=True, metavar="FUNCTION")
    for function in functions:
        command = commands.add_parser(function.name, help=function.about, description=function.about)
        command.set_defaults(function=function)
        for each in inspect.type_info(function.inputs).fields:  # type: ignore[attr-defined]
            _add(command, each, function.inputs_about.get(each.encode_name, ""))
    return parser


def _add(command: argparse.ArgumentParser, each: inspect.Field, about: str) -> None:
    """An option for an input."""
    type_, option = each.type, f"--{each.encode_name.replace('_', '-')}"
    if isinstance(type_, inspect.UnionType) and type_.includes_none and len(type_.types) == 2:
        type_ = next(one for one in type_.types if not isinstance(one, inspect.NoneType))
    common: dict[str, Any] = {
        "dest": f"{_INPUT}{each.encode_name}",
        "required": each.required,
        "help": about.replace("%", "%%"),
    }
    match type_:
        case inspect.BoolType():
            command.add_argument(option, action=argparse.BooleanOptionalAction, **common)
        case inspect.IntType():
            command.add_argument(option, type=int, metavar="NUMBER", **common)
        case inspect.FloatType():
            command.add_argument(option, type=float, metavar="NUMBER", **common)
        case inspect.StrType():
            command.add_argument(option, metavar="TEXT", **common)
        case _:
            command.add_argument(option, type=_json, metavar="JSON", **common)


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"expected JSON, found {text!r}: {error}") from None
