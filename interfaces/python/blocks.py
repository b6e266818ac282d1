"""A block of functions: what callers and servers have of it.

A block is an interface or a namespace in it. Its classes are named after it: XClient, XSyncClient, XServer,
X_server_dispatcher, X_skeleton, X_test; those of an inner block are reached by its name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from interfaces.model import Field, Function, Interface, Namespace
from interfaces.python.names import class_name, member
from interfaces.python.text import block, bracketed, documentation, literal
from interfaces.python.types import Module, may_be_none, struct
from interfaces.scope import Scope


@dataclass(frozen=True, eq=False)
class Block:
    """`path`: the names from the interface down to it; `title`: the beginning of the names of its classes."""

    definition: Interface | Namespace
    scope: Scope
    path: tuple[str, ...]

    @property
    def title(self) -> str:
        return class_name(*self.path)

    def inner(self) -> Iterator["Block"]:
        """The namespaces in it which have functions."""
        for each in self.definition.members:
            if isinstance(each, Namespace):
                inner = Block(each, self.scope.inside(each), (*self.path, each.name))
                if any(inner.functions()) or any(inner.inner()):
                    yield inner

    def functions(self) -> Iterator["Call"]:
        """Its own functions, without those of inner blocks."""
        for each in self.definition.members:
            if isinstance(each, Function):
                yield Call(each, self)

    def everything(self) -> Iterator["Call"]:
        """Its functions, and those of the blocks in it."""
        yield from self.functions()
        for each in self.inner():
            yield from each.everything()


@dataclass(frozen=True, eq=False)
class Call:
    """A function, and the names that belong to it in Python."""

    function: Function
    block: Block

    @property
    def path(self) -> tuple[str, ...]:
        """From the interface's block down to the function."""
        return (*self.block.path[1:], self.function.name)

    @property
    def constant(self) -> str:
        return "_".join(("", *self.path)).upper()

    @property
    def inputs(self) -> str:
        return f"_{class_name(*self.path)}In"

    @property
    def outputs(self) -> str:
        return f"{class_name(*self.path)}Out"

    @property
    def result(self) -> str:
        """The type of its result; None where it has no outputs."""
        return self.outputs if self.function.outputs else "None"


def write_call(module: Module, call: Call) -> str:
    """The types of its inputs and outputs, and the function itself."""
    function, scope = call.function, call.block.scope
    owner = f"the function {'.'.join(call.path)}"
    for name in (call.constant, call.inputs, call.outputs):
        module.own(name, owner, function.at.line)
    parts = [
        struct(
            module, call.inputs, function.description, function.inputs, scope, ", forbid_unknown_fields=True"
        ),
        struct(module, call.outputs, function.description, function.outputs, scope),
    ]
    errors = list(_errors(module, call))
    arguments = [literal(".".join(call.path)), call.inputs, call.outputs, *errors]
    arguments.append(f"about={literal(function.description)}")
    if function.inputs:
        about = (f"{literal(each.name)}: {literal(each.description)}" for each in function.inputs)
        arguments.append(bracketed("inputs_about={", about, "}", 1))
    parts.append(bracketed(f"{call.constant} = Function(", arguments, ")"))
    return "\n\n\n".join(parts)


def _errors(module: Module, call: Call) -> Iterator[str]:
    for path in call.function.raises:
        if (found := call.block.scope.find(path)) is not None:
            yield module.name(found)


def write_block(module: Module, each: Block) -> list[str]:
    """All classes of a block, after those of the blocks in it."""
    for ending in ("Client", "SyncClient", "Server"):
        module.own(
            f"{each.title}{ending}", f"the functions of {'.'.join(each.path)}", each.definition.at.line
        )
    written = [one for inner in each.inner() for one in write_block(module, inner)]
    writers = (_client, _sync_client, _server, _dispatcher, _skeleton, _test)
    return [*written, *(writer(module, each) for writer in writers)]


# --- callers


def _client(module: Module, each: Block) -> str:
    def method(call: Call) -> str:
        said = "return await " if call.function.outputs else "await "
        return _method(
            module, call, f"async def {member(call.function.name)}", call.result, _asked(said, call)
        )

    return _calls(each, "Client", "Caller", "Rpc", method)


def _sync_client(module: Module, each: Block) -> str:
    def method(call: Call) -> str:
        said = "return " if call.function.outputs else ""
        return _method(module, call, f"def {member(call.function.name)}", call.result, _asked(said, call))

    return _calls(each, "SyncClient", "SyncCaller", "SyncRpc", method)


def _asked(said: str, call: Call) -> str:
    inputs = [f"{member(one.name)}={member(one.name)}" for one in call.function.inputs]
    parts = [call.constant, bracketed(f"{call.inputs}(", inputs, ")", 3)]
    return bracketed(f"{said}self._caller.call(", parts, ")", 2)


def _calls(each: Block, ending: str, caller: str, rpc: str, method: Callable[[Call], str]) -> str:
    inner = [
        f"self.{member(one.definition.name)} = {one.title}{ending}(self._caller)" for one in each.inner()
    ]
    if isinstance(each.definition, Interface):
        parameters = [f"rpc: {rpc}", "queue: str = INTERFACE", "*", "timeout: float | None = -1.0"]
        made = f"self._caller = {caller}(rpc, queue, INTERFACE, VERSION, timeout)"
        said = "Asks who serves a queue. `timeout`: seconds a call; None = for ever, below 0 = that of `rpc`."
    else:
        parameters, made, said = [f"caller: {caller}"], "self._caller = caller", ""
    start = block(bracketed("def __init__(", ["self", *parameters], ") -> None:", 1), made, *inner)
    return block(
        f"class {each.title}{ending}:",
        documentation(each.definition.description, said),
        *(f"\n{one}" for one in (start, *map(method, each.functions()))),
    )


# --- servers


def _server(module: Module, each: Block) -> str:
    said = "A server has these functions, each either with or without `async`; those without run in threads."
    inner = [
        f"@property\ndef {member(one.definition.name)}(self) -> {one.title}Server: ..."
        for one in each.inner()
    ]
    own = [
        _method(
            module, one, f"def {member(one.function.name)}", f"Awaitable[{one.result}] | {one.result}", "..."
        )
        for one in each.functions()
    ]
    return block(
        f"class {each.title}Server(Protocol):",
        documentation(each.definition.description, said),
        *(f"\n{one}" for one in (*inner, *own)),
    )


def _dispatcher(module: Module, each: Block) -> str:
    depth = len(each.path) - 1
    methods = [
        f"{one.constant}: {'.'.join(('server', *map(member, one.path[depth:])))}" for one in each.everything()
    ]
    served = bracketed("handlers(", [bracketed("{", methods, "}", 4)], ")", 3)
    called = bracketed("super().__init__(", [served, "INTERFACE", "VERSION"], ")", 2)
    return block(
        f"class {each.title}_server_dispatcher(Interface):",
        documentation("Checks and converts the inputs and outputs of a server: `rpc.serve(queue, [this])`."),
        "\n" + block(f"def __init__(self, server: {each.title}Server) -> None:", called),
    )


def _skeleton(module: Module, each: Block) -> str:
    return _answers(
        module,
        each,
        "skeleton",
        "Says of each function that it is not implemented: derive from it, and replace them one by one.",
        lambda call: f"raise Unimplemented({literal('.'.join(call.path))})",
    )


def _test(module: Module, each: Block) -> str:
    return _answers(
        module,
        each,
        "test",
        "Answers each call with a value of its type.",
        lambda call: f"return _sample({call.outputs})" if call.function.outputs else "return None",
    )


def _answers(module: Module, each: Block, ending: str, said: str, body: Callable[[Call], str]) -> str:
    inner = [
        f"self.{member(one.definition.name)}: {one.title}Server = {one.title}_{ending}()"
        for one in each.inner()
    ]
    start = [block("def __init__(self) -> None:", *inner)] if inner else []
    own = [
        _method(
            module, one, f"async def {member(one.function.name)}", one.result, body(one), documented=False
        )
        for one in each.functions()
    ]
    return block(
        f"class {each.title}_{ending}:", documentation(said), *(f"\n{one}" for one in (*start, *own))
    )


# --- both


def _method(module: Module, call: Call, head: str, result: str, body: str, *, documented: bool = True) -> str:
    inputs = call.function.inputs
    parameters = [_parameter(module, call, one) for one in inputs]
    named = ["*", *parameters] if parameters else []
    said = _said(module, call) if documented else ""
    return block(bracketed(f"{head}(", ["self", *named], f") -> {result}:", 1), said, body)


def _parameter(module: Module, call: Call, each: Field) -> str:
    type_ = module.type(each.type, call.block.scope)
    default = " = None" if may_be_none(each.type, call.block.scope) else ""
    return f"{member(each.name)}: {type_}{default}"


def _said(module: Module, call: Call) -> str:
    function = call.function
    inputs = "\n".join(f"`{member(one.name)}`: {one.description}" for one in function.inputs)
    errors = ", ".join(_errors(module, call))
    return documentation(function.description, inputs, f"Raises {errors}." if errors else "")
