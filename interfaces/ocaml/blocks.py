"""A block of functions: what callers and servers have of it. A namespace is a module in its block's."""

from collections.abc import Callable, Iterator, Sequence
from textwrap import indent

from interfaces.model import Error, Field
from interfaces.ocaml.names import capital, module, value
from interfaces.ocaml.samples import Samples
from interfaces.ocaml.text import comment, listed, literal, structure
from interfaces.ocaml.types import OcamlLibrary, TypeWords, has_value
from interfaces.python.blocks import Block, Call
from interfaces.python.types import may_be_none
from interfaces.scope import Found, plain


def write_calls(library: OcamlLibrary, each: Block) -> str:
    """The types of all functions: inputs, outputs, errors."""
    return structure("module Calls =", *_nested(library, each, lambda call: _call(library, call)))


def _nested(
    library: OcamlLibrary, each: Block, write: Callable[[Call], str], inner: str = "struct"
) -> list[str]:
    """What is written of each function, and the same of the blocks inside."""
    parts = [write(call) for call in each.functions()]
    for one in each.inner():
        name = module(library.package, one.definition.name)
        head = f"module {name} {':' if inner == 'sig' else '='}"
        parts.append(structure(head, *_nested(library, one, write, inner), opened=inner))
    return parts


def call_module(library: OcamlLibrary, call: Call) -> str:
    """The module of a function's types."""
    return ".".join(("Calls", *(module(library.package, name) for name in call.path)))


# --- types


def _call(library: OcamlLibrary, call: Call) -> str:
    function, words = call.function, TypeWords(library, call.block.scope)
    parts = [
        structure("module In =", *_inputs(words, call)),
        structure("module Out =", *_outputs(words, function.outputs)),
        *_errors(library, call),
        "type response = (Out.t, error) result",
        _stub(call),
    ]
    name = module(library.package, function.name)
    return structure(f"{comment(function.description)}\nmodule {name} =", *parts)


def _inputs(words: TypeWords, call: Call) -> Iterator[str]:
    fields, name = call.function.inputs, literal(".".join(call.path))
    known = listed("[", [literal(each.name) for each in fields], "]")
    yield f"type t = {words.record(fields)}"
    if fields:
        written = indent(words.written(fields), "  ")
        yield f"let call_of (v : t) =\n  Sapwood.Call.make {name}\n{written}"
        made = indent(words.made(fields), "  ")
        yield f"let of_call call : t =\n  let fields = Sapwood.Call.inputs call {known} in\n{made}"
    else:
        yield f"let call_of () = Sapwood.Call.make {name} []"
        yield "let of_call call : t = ignore (Sapwood.Call.inputs call [])"


def _outputs(words: TypeWords, fields: Sequence[Field]) -> Iterator[str]:
    yield f"type t = {words.record(fields)}"
    if fields:
        yield f"let to_json (v : t) =\n  Sapwood.Write.obj\n{indent(words.written(fields), '    ')}"
        made = indent(words.made(tuple(fields)), "  ")
        yield f"let of_json json : t =\n  let fields = Sapwood.Read.obj json in\n{made}"
    else:
        yield "let to_json () = Sapwood.Write.obj []"
        yield "let of_json json : t = ignore (Sapwood.Read.obj json)"


def raised(call: Call) -> Iterator[tuple[Found, Error]]:
    """The errors that a function declares."""
    for path in call.function.raises:
        found = call.block.scope.find(path)
        if found is not None and isinstance(found.definition, Error):
            yield found, found.definition


def _errors(library: OcamlLibrary, call: Call) -> Iterator[str]:
    kinds, faults, errors = [], [], []
    for found, error in raised(call):
        name, code = f"`{capital(error.name)}", literal(error.name.upper())
        if has_value(error, found.scope):
            owner = library.module(found)
            kinds.append(f"{name} of {owner}.t")
            faults.append(f"  | {name} v -> {owner}.fault_of v")
            errors.append(f"  | {code} -> Some ({name} ({owner}.of_fault fault))")
        else:
            kinds.append(name)
            faults.append(f"  | {name} -> Sapwood.Fault.make {code} {literal(error.description)}")
            errors.append(f"  | {code} -> Some {name}")
    if not kinds:
        yield "type error = |"
        yield "let fault_of : error -> Sapwood.Fault.t = function _ -> ."
        yield "let error_of (_ : Sapwood.Fault.t) : error option = None"
        return
    yield f"type error = {listed('[', kinds, ']', ' | ')}"
    yield "\n".join(("let fault_of : error -> Sapwood.Fault.t = function", *faults))
    head = "let error_of (fault : Sapwood.Fault.t) : error option =\n  match fault.code with"
    yield "\n".join((head, *errors, "  | _ -> None"))


def _stub(call: Call) -> str:
    name, about = literal(".".join(call.path)), literal(call.function.description)
    parts = [
        f"Sapwood.Stub.name = {name}",
        f"about = {about}",
        "call_of = In.call_of",
        "of_call = In.of_call",
    ]
    parts += ["write = Out.to_json", "read = Out.of_json", "fault_of", "error_of"]
    return listed("let stub : (In.t, Out.t, error) Sapwood.Stub.t = {", parts, "}")


# --- servers


def write_signature(library: OcamlLibrary, each: Block) -> str:
    """The type of a server: a module with these functions."""

    def method(call: Call) -> str:
        path = call_module(library, call)
        said = comment(call.function.description)
        return f"{said}\nval {value(call.function.name)} : {path}.In.t -> {path}.response io"

    parts = ["type 'a io", *_nested(library, each, method, "sig")]
    about = comment(each.definition.description)
    return structure(f"{about}\nmodule type {capital(each.definition.name)} =", *parts, opened="sig")


def write_dispatcher(library: OcamlLibrary, each: Block) -> str:
    """Checks and converts the inputs and outputs of a server, those of its namespaces too."""
    methods = []
    for call in each.everything():
        *namespaces, name = call.path
        of = ".".join(("Server", *(module(library.package, one) for one in namespaces), value(name)))
        methods.append(f"Rpc.methods {call_module(library, call)}.stub {of}")
    title = capital(each.definition.name)
    listing = listed("[", methods, "]")
    body = (
        "let interface : Rpc.interface =\n  { name = interface; version; methods =\n"
        + indent(listing, "    ")
        + " }"
    )
    server = f"(Rpc : Sapwood.S.RPC) (Server : {title} with type 'a io := 'a Rpc.io)"
    about = comment("A server for Rpc.serve.")
    return structure(f"{about}\nmodule {title}_server_dispatcher {server} =", body)


def write_answers(library: OcamlLibrary, each: Block) -> Iterator[str]:
    """The skeleton, and the server for tests."""

    def answer(body: Callable[[Call], str]) -> Callable[[Call], str]:
        def method(call: Call) -> str:
            path = call_module(library, call)
            head = f"let {value(call.function.name)} (_ : {path}.In.t) : {path}.response Rpc.io ="
            return f"{head}\n  {body(call)}"

        return method

    def unimplemented(call: Call) -> str:
        return f"Rpc.fail (Sapwood.Errors.unimplemented {literal('.'.join(call.path))})"

    def example(call: Call) -> str:
        made = Samples(library).record(
            call.function.outputs, call.block.scope, f"{call_module(library, call)}.Out"
        )
        return f"Rpc.return (Ok {made})".replace("\n", "\n  ")

    title = capital(each.definition.name)
    for ending, body, said in (
        (
            "skeleton",
            unimplemented,
            "Says of each function that it is not implemented: include it, and define yours.",
        ),
        ("test", example, "Answers each call with a value of its type."),
    ):
        head = f"{comment(said)}\nmodule {title}_{ending} (Rpc : Sapwood.S.RPC) ="
        yield structure(head, *_nested(library, each, answer(body)))


# --- callers


def write_clients(library: OcamlLibrary, each: Block, version: str) -> Iterator[str]:
    """The functions for callers: with records, and with labels. `version`: of the interface, as a literal.

    Wrinkle: an input or a function may be called `version`, and would hide the value of that name.
    """

    def record(call: Call) -> str:
        asked = f"Rpc.call rpc_ ~interface ~version:{version} {call_module(library, call)}.stub inputs"
        return f"let {value(call.function.name)} rpc_ inputs = {asked}"

    def labelled(call: Call) -> str:
        words, scope = call_module(library, call), call.block.scope
        labels, fields = [], []
        for one in call.function.inputs:
            name = value(one.name)
            labels.append(
                f"?({name} = ())"
                if _is_unit(one, call)
                else f"{'?' if may_be_none(one.type, scope) else '~'}{name}"
            )
            fields.append(name)
        if fields:
            fields[0] = f"{words}.In.{fields[0]}"
        made = listed("{", fields, "}") if fields else "()"
        head = " ".join(("let", value(call.function.name), "rpc_", *labels, "()", "="))
        asked = f"Rpc.call rpc_ ~interface ~version:{version} {words}.stub {made}"
        return f"{comment(call.function.description)}\n{head}\n  {asked}"

    for name, said, write in (
        ("Record_client", "Each function takes a record of its inputs.", record),
        (
            "Client",
            "Each function takes its inputs by label; those that may be none may be left out.",
            labelled,
        ),
    ):
        head = f"{comment(said)}\nmodule {name} (Rpc : Sapwood.S.RPC) ="
        yield structure(head, *_nested(library, each, write))


def _is_unit(each: Field, call: Call) -> bool:
    return str(plain(each.type, call.block.scope)[0]) == "unit"
