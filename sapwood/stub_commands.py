"""The command line of a generated module: a command for each function of an interface.

    python -m chain.stock_v1 --queue stock@store-0042 level --article 4711
    python -m chain.tills_v1 --queue tills@store-0042 screen.picture --till 3 --save-png picture.png

A session secret stands in $SAPWOOD_SESSION_SECRET, an account in $SAPWOOD_ACCOUNT and $SAPWOOD_PASSWORD.
Numbers and texts are said as they are, true and false by `--open` and `--no-open`, all else as JSON.
A channel is a file: one that is sent, or one that is written; `-` is standard input or output.
"""

import argparse
import io
import os
import sys
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, TextIO

import msgspec
from msgspec import inspect

from sapwood import sync
from sapwood.channels.urls import ChannelUrls
from sapwood.client import DEFAULT_ADDRESS
from sapwood.errors import ClientError
from sapwood.options import ClientOptions
from sapwood.stub_channels import STANDARD, Sent, received
from sapwood.stub_completion import SHELLS, Parser, named, script
from sapwood.stub_samples import CHANNEL
from sapwood.stubs import Function, SyncCaller

FAILED: Final = 1
WRONG_USE: Final = 2
STOPPED: Final = 130
_LONGEST: Final = 1e9
"""Seconds that an answer is waited for: thirty years."""
_INPUT: Final = "input "
_SAVE: Final = "save "


def main(
    interface: str, version: str, functions: Sequence[Function[Any, Any]], words: Sequence[str] | None = None
) -> int:
    """Call the function that the command line names, and print its outputs. Returns an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks stops nothing
    try:
        return _call(interface, version, vars(_parser(interface, version, functions).parse_args(words)))
    except KeyboardInterrupt:
        return _failed("stopped", STOPPED)


def _call(interface: str, version: str, said: Mapping[str, Any]) -> int:
    function: Function[Any, Any] = said["function"]
    inputs, saved = _given(said, _INPUT), _given(said, _SAVE)
    files = {each.encode_name for each in _fields(function.inputs) if _is_channel(each)} & inputs.keys()
    try:
        function.parameters(_inputs(function, inputs | dict.fromkeys(files, CHANNEL)))
    except ValueError as error:
        return _failed(str(error), WRONG_USE)
    try:
        with sync.connect(said["url"], session=said["session"], **_options(said["ca"])) as client:
            caller = SyncCaller(client.rpc, said["queue"], interface, version, said["timeout"])
            with ExitStack() as stack:
                sent = {name: stack.enter_context(Sent(client, name, inputs[name])) for name in sorted(files)}
                made = {name: each.urls for name, each in sent.items()}
                outputs = caller.call(function, _inputs(function, inputs | made))
                come = _saved(client, outputs, saved)
    except (ClientError, OSError, ValueError) as error:
        return _failed(str(error), FAILED)
    _print(outputs, come, as_json=said["json"], file=sys.stderr if STANDARD in saved.values() else sys.stdout)
    return 0


def _given(said: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The options of a kind that were said, by the names of inputs or outputs."""
    found = {name.removeprefix(kind): value for name, value in said.items() if name.startswith(kind)}
    return {name: value for name, value in found.items() if value is not None}


def _inputs(function: Function[Any, Any], given: Mapping[str, Any]) -> Any:
    """Raises `ValueError`."""
    try:
        return msgspec.convert(given, function.inputs, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"{function.name}: {error}") from None


def _saved(client: sync.Client, outputs: msgspec.Struct, saved: Mapping[str, str]) -> dict[str, str]:
    """Write channels to files, one after the other: what came of each, by its name."""
    come = {}
    for each in _fields(type(outputs)):
        name, urls = each.encode_name, getattr(outputs, each.name)
        if name in saved and urls is not None:
            count, way = received(client, name, urls, saved[name])
            come[name] = f"{count} bytes ({way})"
    return come


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


def _print(outputs: msgspec.Struct, come: Mapping[str, str], *, as_json: bool, file: TextIO) -> None:
    """The outputs as one JSON object, or each on its line: a text as it is, all else as JSON."""
    said = msgspec.to_builtins(outputs, str_keys=True) | come
    if as_json:
        print(msgspec.json.encode(said).decode(), file=file)
        return
    for name, value in said.items():
        print(
            f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}", file=file
        )


def _parser(interface: str, version: str, functions: Sequence[Function[Any, Any]]) -> Parser:
    parser = Parser(
        prog=f"{interface} {version}", description=f"Call a function of the interface {interface} {version}."
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("SAPWOOD_URL", DEFAULT_ADDRESS),
        help="The node's address; $SAPWOOD_URL or %(default)s unless given.",
    )
    parser.add_argument("--queue", default=interface, help="NAME, or NAME@NODE; %(default)s unless given.")
    parser.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="%(default)g unless given."
    )
    parser.add_argument(
        "--session", default="", metavar="NAME", help="The session's name; a fresh one unless given."
    )
    parser.add_argument("--ca", metavar="FILE", help="Certificates of authorities that are trusted (PEM).")
    parser.add_argument("--json", action="store_true", help="Print the outputs as one JSON object.")
    about = (
        "Print what gives bash, or SHELL, a command of this name, which calls this one and completes words."
    )
    parser.add_argument(
        "--completion", type=named, nargs="+", metavar=("NAME", "SHELL"), action=_Complete, help=about
    )
    commands = parser.add_subparsers(required=True, metavar="FUNCTION")
    for function in functions:
        about = _plain_help(function.about)
        shown = about if "%(prog)" in about else function.about  # of descriptions it puts in this one alone
        command = commands.add_parser(function.name, help=about, description=shown, add_help=False)
        command.set_defaults(function=function)
        parser.functions[function.name] = command
        inputs = _fields(function.inputs)
        taken = {_option(each) for each in inputs}
        names = [each for each in ("-h", "--help") if each not in taken]
        command.add_argument(*names, action="help", help="show this help message and exit")
        for each in inputs:
            _add(command, each, function.inputs_about.get(each.encode_name, ""), taken)
        for each in filter(_is_channel, _fields(function.outputs)):
            _add_save(command, each)
    return parser


class _Complete(argparse.Action):
    """Print the completion, and end."""

    def __call__(self, parser: argparse.ArgumentParser, *said: Any) -> None:
        assert isinstance(parser, Parser)
        name, *further = said[1]
        shell = further[0] if further else SHELLS[0]
        if shell not in SHELLS or further[1:]:
            parser.error(f"no completion for {' '.join(further)}: expected one of {', '.join(SHELLS)}")
        print(script(shell, name, parser), end="")
        parser.exit()


def _fields(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found.fields


def _plain(type_: inspect.Type) -> inspect.Type:
    """The type of a value that there is, of one that may be none."""
    if isinstance(type_, inspect.UnionType) and type_.includes_none and len(type_.types) == 2:
        return next(one for one in type_.types if not isinstance(one, inspect.NoneType))
    return type_


def _is_channel(each: inspect.Field) -> bool:
    type_ = _plain(each.type)
    return isinstance(type_, inspect.StructType) and type_.cls is ChannelUrls


def _add(
    command: argparse.ArgumentParser, each: inspect.Field, about: str, taken: Container[str] = ()
) -> None:
    """An option for an input. `taken`: those of all inputs. Beside `--no-x`, `--x` takes true or false."""
    option = _option(each)
    common: dict[str, Any] = {
        "dest": f"{_INPUT}{each.encode_name}",
        "required": each.required,
        "help": _plain_help(about),
    }
    match _plain(each.type):
        case inspect.BoolType() if f"--no-{option[2:]}" not in taken:
            command.add_argument(option, action=argparse.BooleanOptionalAction, **common)
        case inspect.IntType():
            command.add_argument(option, type=int, metavar="NUMBER", **common)
        case inspect.FloatType():
            command.add_argument(option, type=float, metavar="NUMBER", **common)
        case inspect.StrType():
            command.add_argument(option, metavar="TEXT", **common)
        case inspect.StructType(cls=cls) if cls is ChannelUrls:
            command.add_argument(option, metavar="FILE", **common)
        case _:
            command.add_argument(option, type=_json, metavar="JSON", **common)


def _add_save(command: argparse.ArgumentParser, each: inspect.Field) -> None:
    """An option for an output that is a channel. An input of that name goes before."""
    option = f"--save-{_option(each).removeprefix('--')}"
    said = f"Write what {each.encode_name} brings to a file; - is standard output."
    with suppress(argparse.ArgumentError):
        command.add_argument(option, dest=f"{_SAVE}{each.encode_name}", metavar="FILE", help=said)


def _option(each: inspect.Field) -> str:
    return f"--{each.encode_name.replace('_', '-')}"


def _plain_help(text: str) -> str:
    """`argparse` puts values in place of what begins with %."""
    return text.replace("%", "%%")


def _seconds(text: str) -> float:
    try:
        if 0 < (seconds := float(text)) <= _LONGEST:
            return seconds
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected seconds above 0, as 30, found {text!r}")


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected JSON, found {text[:80]!r}: {error}") from None
