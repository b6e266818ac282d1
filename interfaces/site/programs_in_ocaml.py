"""A client and a server for each function in OCaml, as whole programs, each below its dune file."""

from textwrap import indent
from typing import Final

from interfaces.model import Error, Field, Interface
from interfaces.ocaml.blocks import call_module, raised
from interfaces.ocaml.names import capital, module, of_interface, value
from interfaces.ocaml.samples import Samples
from interfaces.ocaml.text import listed, literal, structure
from interfaces.ocaml.types import OcamlLibrary, TypeWords, has_value
from interfaces.python.blocks import Call
from interfaces.python.types import may_be_none
from interfaces.scope import plain

_URL: Final = 'let url = if Array.length Sys.argv > 1 then Sys.argv.(1) else "http://127.0.0.1:7600"'
_SHOW: Final = 'let show name json = Printf.printf "%s: %s\\n%!" name (Sapwood.Json.to_string json)'
_SEND: Final = """
let send line =
  Fun.protect ~finally:(fun () -> Unix.close line) @@ fun () ->
  let _ = Unix.write_substring line "text" 0 4 in
  Unix.shutdown line SHUTDOWN_SEND;
  ignore (Unix.read line (Bytes.create 1) 0 1)
"""
_READ: Final = """
let read given =
  let line, _ = Channel.take session given in
  let input = Unix.in_channel_of_descr line in
  Fun.protect ~finally:(fun () -> close_in input) @@ fun () ->
  try while true do print_endline (input_line input) done with End_of_file -> ()
"""


class _Program:
    """`library`: whose types it uses, and which others they need."""

    def __init__(self, interface: Interface, call: Call, package: str) -> None:
        self.interface = interface
        self.call = call
        self.library = OcamlLibrary(
            package.lower().replace(".", "_"), call.block.scope.where[0], str(interface)
        )
        self.samples = Samples(self.library, makes_channels=True)
        self.words = TypeWords(self.library, call.block.scope)
        self.calls = call_module(self.library, call)

    def is_channel(self, each: Field) -> bool:
        return str(plain(each.type, self.call.block.scope)[0]) == "channel"

    def shown(self, each: Field) -> str:
        """The statement that shows a value, or all that comes through its channel."""
        if self.is_channel(each):
            return f"read {value(each.name)}"
        written = self.words.write(each.type).removeprefix("(").removesuffix(")")
        return f"show {literal(each.name)} ({written} {value(each.name)})"

    def made(self) -> list[str]:
        """The lines that make the channels of the samples that were asked for."""
        return [
            line
            for number in range(1, self.samples.channels + 1)
            for line in (
                f"let channel_{number}, given_{number} = Channel.make session in",
                f"let _ = Thread.create send channel_{number} in",
            )
        ]

    def text(self, name: str, start: list[str], *parts: str) -> str:
        own = f"{self.library.package}.{of_interface(self.interface)}"
        others = sorted(f"{self.library.package}.{each}" for each in self.library.used)
        libraries = " ".join(("sapwood.unix", own, *others))
        body = "\n".join(parts)
        helpers = [(" show ", _SHOW), (" send ", _SEND), (" read ", _READ)]
        found = [text.strip() for word, text in helpers if word in body.replace("\n", " ")]
        head = f"(* (executable (name {name}) (libraries {libraries})) *)"
        opened = f"open {capital(own.replace('.', '_'))}\nopen Sapwood_unix"
        return "\n\n".join((head, opened, "\n".join((_URL, *start)), *found, *parts)) + "\n"


def client(interface: Interface, call: Call, package: str) -> str:
    """A program that calls the function and shows what it gets."""
    program, function = _Program(interface, call, package), call.function
    inputs = [
        f"~{value(each.name)}:{program.samples.value(each.type, call.block.scope)}"
        for each in function.inputs
        if not may_be_none(each.type, call.block.scope)
    ]
    *namespaces, name = call.path
    path = ".".join(("Client", *(module(program.library.package, each) for each in namespaces), value(name)))
    asked = listed(f"{path} rpc", [*inputs, "()"], "", " ").rstrip()
    shown = ";\n".join(map(program.shown, function.outputs)) or 'print_endline "done"'
    names = _names(function.outputs, f"{program.calls}.Out.")
    lines = [*program.made(), f"match {asked} with", f"| Ok {names} ->\n{indent(shown, '    ')}"]
    lines += _failed(program)
    start = ["let rpc = Rpc.at (Rpc.connect url) ~timeout:10."]
    if any(program.is_channel(each) for each in function.outputs) or program.samples.channels:
        start.append("let session = Rpc.session rpc")
    main = "let () =\n" + indent("\n".join(lines), "  ")
    return program.text("client", start, "module Client = Client (Rpc)", main)


def _names(fields: tuple[Field, ...], module: str = "") -> str:
    """The pattern of a record. `module`: in which its type is, where that is not said beside it."""
    names = [value(each.name) for each in fields]
    return listed("{", [f"{module}{names[0]}", *names[1:]], "}") if names else "()"


def _failed(program: _Program) -> list[str]:
    errors = list(raised(program.call))
    if not errors:
        return ["| Error _ -> ."]
    return [
        f"| Error {_case(error, has_value(error, found.scope))} -> prerr_endline {literal(error.description)}"
        for found, error in errors
    ]


def _case(error: Error, has_a_value: bool) -> str:
    return f"(`{capital(error.name)} _)" if has_a_value else f"`{capital(error.name)}"


def server(interface: Interface, call: Call, package: str) -> str:
    """A program that serves the function and shows what it is asked; all others are not implemented."""
    program, function = _Program(interface, call, package), call.function
    answer = program.samples.record(function.outputs, call.block.scope, f"{program.calls}.Out")
    lines = [f"{program.shown(each)};" for each in function.inputs]
    lines += [*program.made(), f"Ok {answer}"]
    names = _names(function.inputs)
    asked = f"({names} : {program.calls}.In.t)" if function.inputs else names
    body = f"let {value(function.name)} {asked} : {program.calls}.response =\n" + indent(
        "\n".join(lines), "  "
    )
    for name in reversed(call.path[:-1]):
        inner = module(program.library.package, name)
        body = structure(f"module {inner} =", f"include {inner}", body)
    title = capital(interface.name)
    mine = structure(f"module My_{interface.name} =", f"include {title}_skeleton (Rpc)", body)
    served = f"module Served = {title}_server_dispatcher (Rpc) (My_{interface.name})"
    main = f"let () = Rpc.serve session {literal(interface.name)} [ Served.interface ]"
    return program.text("server", ["let session = Session.connect url"], mine, served, main)
