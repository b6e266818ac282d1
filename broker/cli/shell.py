"""`sapwood shell`: a prompt at a node. Cells are gone to, and their commands used, as in `sapwood` itself.

At a node's own cell (`System`, `RoutingMgr`, `lm`) the commands are those of the command line that ask it,
with the node filled in. At any other cell they are the methods of the service that reads it (`sapwood.rpc`);
each service tells its own, by `help`.

From standard input that is no terminal the lines of a script are read: the first that fails ends it.
"""

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from broker.cli.errors import FAILED, WRONG_USE, CommandError, explain
from broker.cli.options import OperatorOptions
from broker.cli.output import printable
from broker.core.messages.queue_names import LOCATION_MANAGER, ROUTING_MANAGER, SYSTEM
from sapwood.client import connect
from sapwood.errors import ClientError
from sapwood.rpc import Rpc

HISTORY: Final = ".sapwood_history"
_CELLS: Final = (SYSTEM, ROUTING_MANAGER, LOCATION_MANAGER)
_OF_ROUTES: Final = ("route add", "route remove")
_NOT_HERE: Final = ("shell",)
_WRONG_WORDS: Final[Any] = typer.BadParameter.__base__
_CALL_WITHIN: Final = 30.0
_HELP: Final = """\
\\c CELL@NODE   go to a cell: System, RoutingMgr or lm of a node, or a service; \\c alone goes back
\\l             the cells of this node, and its neighbours
help [COMMAND] what can be asked here; of a service, its methods
exit           end, as Ctrl-D does"""


class EndOfShell(Exception):
    """Somebody has had enough."""


@dataclass(slots=True)
class ShellPlace:
    """Where the prompt is. `node`: '' = the node that is asked."""

    cell: str = SYSTEM
    node: str = ""

    @property
    def is_nodes(self) -> bool:
        return self.cell in _CELLS

    def __str__(self) -> str:
        return f"{self.cell}@{self.node}" if self.node else self.cell


class Shell:
    """One session. `program`: the command line that it is a prompt of. Lines raise `CommandError`."""

    def __init__(self, program: Any, asked: OperatorOptions, node: str, secret: str) -> None:
        self._asked = asked
        self._start = node
        self._secret = secret
        self.place = ShellPlace(node=node)
        self._commands = {name: command for name, command in _all(program, "") if _asks(command)}
        said = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))
        self._cells = {each["name"]: each["cell"] for each in said} | dict.fromkeys(
            _OF_ROUTES, ROUTING_MANAGER
        )

    def __repr__(self) -> str:
        return f"<Shell at {self.place}>"

    # --- what there is

    def names(self) -> list[str]:
        """The commands of the cell where the prompt is; at another node those that can be asked of it.

        System has those of the other two as well.
        """
        if not self.place.is_nodes:
            return []
        return [name for name, command in self._commands.items() if self._is_here(name, command)]

    def _is_here(self, name: str, command: Any) -> bool:
        cell = self._cells.get(name) or SYSTEM
        return self.place.cell in (cell, SYSTEM) and (not self.place.node or _takes_node(command))

    def lines(self) -> list[str]:
        """For completion: the lines that can be typed here, up to what a command is given."""
        names = self.names() if self.place.is_nodes else self._methods()
        return [*names, "help", *(f"help {name}" for name in names), "exit", "\\c", "\\l"]

    def _methods(self) -> list[str]:
        try:
            return [signature.partition("(")[0] for signature, _ in self._told_methods()]
        except CommandError:
            return []

    def _told_methods(self) -> list[tuple[str, str]]:
        """The methods of the service that reads this cell, as it tells: signatures, and a text for each."""
        told = self._call("help", {})
        try:
            return [(printable(each["signature"]), printable(each["text"])) for each in told]
        except (TypeError, KeyError):
            raise CommandError(
                f"{self.place} tells nothing of its methods that can be read", FAILED
            ) from None

    def addresses(self) -> list[str]:
        """For completion: the cells of this node, and of those that the node which is asked knows. Raises
        nothing.
        """
        found = list(_CELLS)
        try:
            nodes = [each["name"] for each in self._asked.api.get("/api/addresses")["known"]]
            found += [f"{cell}@{node}" for node in nodes for cell in _CELLS]
            found += [self._address(each["name"]) for each in self._known_cells()]
        except CommandError:
            pass  # the node is away: the command that is typed will say so
        return list(dict.fromkeys(found))

    def _address(self, cell: str) -> str:
        return f"{cell}@{self.place.node}" if self.place.node else cell

    def _links(self) -> list[dict[str, Any]]:
        links: list[dict[str, Any]] = self._asked.api.get("/api/links", node=self.place.node)["links"]
        return links

    def _known_cells(self) -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = self._asked.api.get("/api/cells", node=self.place.node)["cells"]
        return cells

    # --- one line

    def run(self, line: str) -> None:
        """Carry a line out. Raises `CommandError`, `EndOfShell`."""
        try:
            words = list(_lexer(line))
        except ValueError as error:
            raise CommandError(f"{line[:80]!r}: {error}", WRONG_USE) from None
        match words:
            case []:
                return
            case ["exit" | "quit" | "\\q"]:
                raise EndOfShell
            case ["\\c"]:
                self.place = ShellPlace(node=self._start)
            case ["\\c", address]:
                self._go(address)
            case ["\\l"]:
                self._list()
            case ["help", *name]:
                self._help(" ".join(name))
            case _ if self.place.is_nodes:
                self._command(words)
            case [method, *arguments]:
                print_result(self._call(method, dict(map(_argument, arguments))))

    def _go(self, address: str) -> None:
        cell, _, node = address.partition("@")
        where = ShellPlace(cell or SYSTEM, "" if node == "local" else node)
        found = self._asked.api.get(
            "/api/ping", address=f"{where.cell}@{where.node}" if where.node else where.cell
        )
        if not found["here"]:
            raise CommandError(f"{found['node']} answers, but nobody reads {where.cell!r} there", FAILED)
        self.place = where

    def _list(self) -> None:
        for each in self._known_cells():
            print(self._address(each["name"]))
        for link in self._links():
            print(f"{SYSTEM}@{link['name']}  ({link['relation']}, {link['state']})")

    def _help(self, name: str) -> None:
        if not self.place.is_nodes:
            for signature, text in self._told_methods():
                print(f"{signature}  {text}".rstrip())
        elif name:
            command = self._commands.get(name)
            if command is None:
                raise CommandError(f"no command {name!r}: {', '.join(self.names())}", WRONG_USE)
            print(command.get_help(command.context_class(command, info_name=name)))
        else:
            for each in self.names():
                print(f"{each:22} {self._commands[each].get_short_help_str(80)}")
            print(_HELP)

    def _command(self, words: list[str]) -> None:
        known = [name for name in self.names() if words[: len(name.split())] == name.split()]
        if not known:
            raise CommandError(
                f"no command {words[0]!r} at {self.place}: {', '.join(self.names())}", WRONG_USE
            )
        name = max(known, key=len)
        given = words[len(name.split()) :]
        if self.place.node and "--node" not in given:
            given = ["--node", self.place.node, *given]
        command = self._commands[name]
        command.main(self._options(command) + given, prog_name=name, standalone_mode=False)

    def _options(self, command: Any) -> list[str]:
        """How the node is asked, for a command that takes its address as an option."""
        asked, tls = self._asked, self._asked.tls
        given: dict[str, Any] = {"--url": asked.url, "--token": asked.token}
        given |= {"--ca": tls.ca, "--certificate": tls.certificate, "--key": tls.key}
        known = {option for each in command.params for option in each.opts}
        said = [(name, str(value)) for name, value in given.items() if value and name in known]
        return [*(part for pair in said for part in pair), *(["--json"] if asked.json else [])]

    def _call(self, method: str, parameters: dict[str, Any]) -> Any:
        """Ask the service that reads this cell."""
        asked = self._asked
        tls = asked.tls.context() if asked.url.startswith("https:") else None

        async def ask() -> Any:
            async with connect(asked.url, secret=self._secret or None, tls=tls) as client, Rpc(client) as rpc:
                return await rpc.request(str(self.place), method, parameters, timeout=_CALL_WITHIN)

        try:
            return asyncio.run(ask())
        except ClientError as error:
            raise CommandError(str(error), FAILED) from None


def _lexer(line: str) -> shlex.shlex:
    """Words as a shell has them; a backslash stands for itself, for `\\c`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "#", ""
    return lexer


def _all(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _all(command, f"{before}{name} ")
        elif name not in _NOT_HERE:
            yield f"{before}{name}", command


def _asks(command: Any) -> bool:
    """Does it ask a node with an operator's token?"""
    return {"--url", "--token"} <= {option for each in command.params for option in each.opts}


def _takes_node(command: Any) -> bool:
    return any("--node" in each.opts for each in command.params)


def _argument(text: str) -> tuple[str, Any]:
    """NAME=VALUE; a value is JSON where it can be read so, else text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"{text[:80]!r}: expected NAME=VALUE", WRONG_USE)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def print_result(result: Any) -> None:
    """A text as it is, all else as JSON; a terminal is told nothing that it would obey."""
    text = result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)
    print(printable(text) if sys.stdout.isatty() else text)


def run_script(shell: Shell, lines: Iterable[str]) -> None:
    """Line by line; the first that fails ends it. Raises `CommandError`."""
    for number, line in enumerate(lines, 1):
        try:
            shell.run(line)
        except EndOfShell:
            return
        except (CommandError, typer.Abort, _WRONG_WORDS) as error:
            text, code = _said(error)
            raise CommandError(f"line {number}: {text}", code) from None


def run_prompt(shell: Shell, read: Callable[[str], str]) -> None:
    """Until Ctrl-D or `exit`. `read`: a line, given the prompt; raises `EOFError`, `KeyboardInterrupt`."""
    print("help says what can be asked here; Ctrl-D ends")
    while True:
        try:
            shell.run(read(f"{shell.place}> "))
        except (EOFError, EndOfShell):
            return
        except KeyboardInterrupt:
            continue
        except (CommandError, typer.Abort, _WRONG_WORDS) as error:
            print(printable(_said(error)[0]), file=sys.stderr)


def _said(error: Exception) -> tuple[str, int]:
    if isinstance(error, _WRONG_WORDS):
        return error.format_message(), WRONG_USE
    return explain(error) if isinstance(error, CommandError) else ("it was not carried out", FAILED)


def completer_of(shell: Shell) -> Any:
    """Completes lines, and the addresses in them. Raises `CommandError` where the library is not there."""
    try:
        from prompt_toolkit.completion import WordCompleter, merge_completers
    except ModuleNotFoundError:
        raise CommandError(
            "the prompt needs the extra 'shell': pip install 'sapwood-node[shell]'", FAILED
        ) from None
    return merge_completers(
        [WordCompleter(shell.lines, sentence=True), WordCompleter(shell.addresses, WORD=True)]
    )


def prompted(shell: Shell, **terminal: Any) -> Callable[[str], str]:
    """Reads lines with history and completion. Raises `CommandError` as `completer_of` does."""
    completer = completer_of(shell)
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(Path.home() / HISTORY)),
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=False,
        **terminal,
    )
    return session.prompt


def run_shell(program: Any, asked: OperatorOptions, node: str, secret: str) -> None:
    """At a terminal a prompt, else a script. Raises `CommandError`."""
    shell = Shell(program, asked, node, secret)
    if sys.stdin.isatty():
        run_prompt(shell, prompted(shell))
    else:
        run_script(shell, sys.stdin)
