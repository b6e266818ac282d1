"""A client and a server for each function, as whole programs that run as they stand."""

from collections.abc import Iterator
from typing import Final

from interfaces.model import Alias, Applied, Field, Interface, Struct, Type, Variant
from interfaces.ocaml.samples import DEEPEST
from interfaces.python.blocks import Call
from interfaces.python.names import class_name, member, of_definition, of_module
from interfaces.python.text import block, bracketed
from interfaces.python.types import may_be_none
from interfaces.scope import Found, Key, Scope, plain

_URL: Final = 'url: str = "http://127.0.0.1:7600"'
_VALUES: Final = {"int64": "1", "double": "1.5", "string": '"text"', "boolean": "True", "unit": "None"}


class _Endless(Exception):
    """The value would hold one of its own type."""


_SENDING: Final = """
async def send(channel):
    reader, writer = await channel.stream()
    try:
        writer.write(b"text")
        writer.write_eof()
        await reader.read()
    finally:
        writer.close()
"""
_READING: Final = """
async def read(channel):
    reader, writer = await channel.stream()
    print(await reader.read())
    writer.close()
"""


class _Value:
    """An example of a type, as Python writes it. `used`: the classes, by the module that has them.

    `client`: the name of the client that makes channels. `made`: the lines that make them.
    """

    def __init__(self, module: str, client: str = "client") -> None:
        self.used: dict[str, set[str]] = {}
        self.made: list[str] = []
        self._client = client
        self._module = module

    def use(self, name: str, module: str = "") -> str:
        self.used.setdefault(module or self._module, set()).add(name)
        return name

    def of(self, type_: Type, scope: Scope, around: tuple[Key, ...] = ()) -> str:
        """Raises `_Endless`. `around`: the definitions that it stands in."""
        if isinstance(type_, Applied):
            return self._applied(type_, scope, around)
        found = scope.find(type_)
        if found is None:
            return self._channel() if str(type_) == "channel" else _VALUES[str(type_)]
        if found.key in around:
            raise _Endless
        return self._defined(found, (*around, found.key))

    def _channel(self) -> str:
        number = len(self.made) // 2 + 1
        self.made.append(f"channel_{number}, given_{number} = await channels.make({self._client})")
        self.made.append(f"sending_{number} = asyncio.create_task(send(channel_{number}))")
        return f"given_{number}"

    def _applied(self, type_: Applied, scope: Scope, around: tuple[Key, ...]) -> str:
        try:
            if type_.name != "pair" and len(around) > DEEPEST:
                raise _Endless
            inner = [self.of(each, scope, around) for each in type_.arguments]
        except _Endless:
            if type_.name == "pair":
                raise
            return {"array": "[]", "dict": "{}", "option": "None"}[type_.name]
        forms = {"array": "[{}]", "dict": "{{{}: {}}}", "option": "{}", "pair": "({}, {})"}
        return forms[type_.name].format(*inner)

    def _defined(self, found: Found, around: tuple[Key, ...]) -> str:
        module = "" if len(found.scope.where) > 1 else _module(found.scope.where[0])
        match found.definition:
            case Alias(type=type_):
                return self.of(type_, found.scope, around)
            case Struct(fields=fields):
                inner = self.fields(fields, found.scope, around)
                return f"{self.use(of_definition(found), module)}({', '.join(inner)})"
            case Variant(cases=cases):
                for case in cases:
                    try:
                        value = self.of(case.type, found.scope, around) if case.type else ""
                    except _Endless:
                        continue
                    name = class_name(*found.scope.where[2:], found.definition.name, case.name)
                    return f"{self.use(name, module)}({value})"
        raise _Endless

    def fields(self, fields: tuple[Field, ...], scope: Scope, around: tuple[Key, ...] = ()) -> Iterator[str]:
        """Fields by name, without those that may be none."""
        for each in fields:
            if not may_be_none(each.type, scope):
                yield f"{member(each.name)}={self.of(each.type, scope, around)}"


def _module(file: str) -> str:
    return file.removesuffix(".idl").replace("/", ".")


def client(interface: Interface, call: Call, package: str) -> str:
    """A program that calls the function and prints what it gets."""
    values = _Value(of_module(interface))
    name = values.use(f"{class_name(interface.name)}Client")
    inputs = list(values.fields(call.function.inputs, call.block.scope))
    path = ".".join((member(interface.name), *map(member, call.path)))
    asked = bracketed(f"await {path}(", inputs, ")", 2)
    outputs = [_shown(call, each) for each in call.function.outputs]
    body = block(
        "async with connect(url) as client, Rpc(client) as rpc:",
        f"{member(interface.name)} = {name}(rpc, timeout=10)",
        *values.made,
        f"result = {asked}" if outputs else asked,
        *outputs,
    )
    return _program(values, package, "", body)


def _shown(call: Call, each: Field) -> str:
    value = f"result.{member(each.name)}"
    return f"await read({_taken(value)})" if _is_channel(call, each) else f"print({value})"


def _is_channel(call: Call, each: Field) -> bool:
    return str(plain(each.type, call.block.scope)[0]) == "channel"


def _taken(value: str, client: str = "client") -> str:
    return f"await channels.take({client}, {value})"


def server(interface: Interface, call: Call, package: str) -> str:
    """A program that serves the function; all others are not implemented."""
    values = _Value(of_module(interface), "self.client")
    answer = "pass"
    if call.function.outputs:
        outputs = values.fields(call.function.outputs, call.block.scope)
        answer = bracketed(f"return {values.use(call.outputs)}(", outputs, ")", 2)
    parameters = [member(each.name) for each in call.function.inputs]
    named = ", ".join(("self", "*", *parameters)) if parameters else "self"
    lines = [
        f"await read({_taken(member(each.name), 'self.client')})"
        for each in call.function.inputs
        if _is_channel(call, each)
    ] + values.made
    method = block(f"async def {member(call.function.name)}({named}):", *lines, answer)
    start = block("def __init__(self, client):", "super().__init__()", "self.client = client")
    methods = [start, f"\n{method}"] if lines else [method]
    title = call.block.title
    skeleton = values.use(f"{title}_skeleton")
    dispatcher = values.use(f"{title}_server_dispatcher")
    mine = block(f"class My{title}({skeleton}):", *methods)
    body = block(
        "async with connect(url) as client, Rpc(client) as rpc:",
        f'await rpc.serve("{interface.name}", [{dispatcher}(My{title}({"client" if lines else ""}))])',
    )
    return _program(values, package, mine, body)


def _program(values: _Value, package: str, before: str, body: str) -> str:
    lines = [
        f"from {package}.{module} import {', '.join(sorted(names))}"
        for module, names in sorted(values.used.items())
    ]
    written = [each for each in (before, block(f"async def main({_URL}):", body)) if each]
    text = "\n".join(written)
    helpers = [each for name, each in (("(send(", _SENDING), (" read(", _READING)) if name in text]
    library = f"from sapwood import Rpc, {'channels, ' if helpers else ''}connect"
    parts = ["import asyncio", library, "\n".join(lines)]
    parts += [f"\n{each.strip()}" for each in (*helpers, *written)]
    parts.append('\nif __name__ == "__main__":\n    asyncio.run(main())')
    return "\n\n".join(parts) + "\n"
