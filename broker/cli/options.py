"""Options that several commands have; and at once all those with which a node is asked."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker.cli.errors import WRONG_USE, CommandError, read_given
from broker.cli.tls import Tls

if TYPE_CHECKING:
    from broker.cli.messages import Login
    from broker.cli.node_api import NodeApi

DEFAULT_URL = "http://127.0.0.1:7600"

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The site's configuration, XML or YAML.")]
Url = Annotated[str, typer.Option("--url", help="The node's address.", envvar="SAPWOOD_URL")]
UrlArgument = Annotated[
    str, typer.Argument(metavar="URL", help=f"The node's address. [default: {DEFAULT_URL}]")
]
Token = Annotated[
    str,
    typer.Option(
        "--token", help="Token for status and administration.", envvar="SAPWOOD_TOKEN", show_default=False
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="File that holds that token.", envvar="SAPWOOD_TOKEN_FILE"),
]
ContextName = Annotated[
    str,
    typer.Option(
        "--context",
        help="A node that `sapwood context` has named.",
        envvar="SAPWOOD_CONTEXT",
        show_default=False,
    ),
]
Authorities = Annotated[
    Path | None, typer.Option("--ca", help="PEM file of the authorities that https and wss must come from.")
]
Certificate = Annotated[
    Path | None,
    typer.Option("--certificate", help="PEM file of our own certificate, for nodes that demand one."),
]
Key = Annotated[
    Path | None, typer.Option("--key", help="PEM file of its key, if it is not in the same file.")
]
Session = Annotated[str, typer.Option("--session", help="Client identity at the node; made up if absent.")]
Secret = Annotated[
    str,
    typer.Option(
        "--secret", help="Session secret, where the node wants one.", envvar="SAPWOOD_SESSION_SECRET"
    ),
]
AccountName = Annotated[
    str, typer.Option("--account", help="Account at the node.", envvar="SAPWOOD_ACCOUNT", show_default=False)
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        help="File that holds the account's password; else SAPWOOD_PASSWORD holds it.",
        envvar="SAPWOOD_PASSWORD_FILE",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many at most.")]
Search = Annotated[str, typer.Option("--search", help="Only those whose name holds this text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask on the terminal first.")]


def group(text: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The node that an operator's command asks, with what right, and whether to print JSON."""

    url: str
    token: str
    tls: Tls
    json: bool

    def at(self, url: str) -> "OperatorOptions":
        """The same of the node that a command's argument names, if it does."""
        return replace(self, url=url or self.url)

    @property
    def api(self) -> "NodeApi":
        from broker.cli.node_api import NodeApi

        return NodeApi(self.url, self.token, self.tls)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The node that an application's command talks to, as which session, and whether to print JSON."""

    url: str
    session: str
    secret: str
    tls: Tls
    json: bool
    account: str = ""

    @property
    def login(self) -> "Login":
        from broker.cli.messages import Login

        return Login(self.url, self.session, self.secret, self.tls, self.account)


_CONTEXT: Final = Parameter("_ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def _option(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_URL: Final = (_option("url", Url, DEFAULT_URL), _option("context", ContextName, ""))
_TLS_AND_JSON: Final = (
    _option("ca", Authorities, None),
    _option("certificate", Certificate, None),
    _option("key", Key, None),
    _option("json", Json, False),
)


def asks_a_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give an operator's command the options with which a node is asked; it takes them as `asked`."""
    token = (_option("token", Token, ""), _option("token_file", TokenFile, None))
    return _with_options(command, "asked", _asked, (*_URL, *token, *_TLS_AND_JSON))


def _asked(*, token: str, token_file: Path | None, **rest: Any) -> OperatorOptions:
    token = token or read_secret(token_file)
    if not token.isascii() or not token.isprintable():
        raise CommandError("a token has plain letters, digits and signs only: this is none", WRONG_USE)
    return OperatorOptions(token=token, **rest)


def read_secret(file: Path | None) -> str:
    """The one line of a file, '' without one. Raises `CommandError`."""
    if file is None:
        return ""
    text = read_given(file).decode(errors="replace").strip()
    if "\n" in text:
        raise CommandError(f"{file}: expected one line, the secret; it has several", WRONG_USE)
    return text


def talks_to_a_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give an application's command the options with which it logs in; it takes them as `client`."""
    session = (_option("session", Session, ""), _option("secret", Secret, ""))
    account = (_option("account", AccountName, ""), _option("password_file", PasswordFile, None))
    return _with_options(command, "client", _client, (*_URL, *session, *account, *_TLS_AND_JSON))


def _client(*, account: str, password_file: Path | None, secret: str, **rest: Any) -> ClientOptions:
    """A password is in no argument of a command: all on the machine can read those."""
    if password_file is not None and not account:
        raise CommandError("--password-file is an account's: give --account too", WRONG_USE)
    if account:
        secret = read_secret(password_file) or os.environ.get("SAPWOOD_PASSWORD", "")
        if not secret:
            raise CommandError(
                f"account {account!r} has a password: give --password-file, or put it into SAPWOOD_PASSWORD",
                WRONG_USE,
            )
    return ClientOptions(account=account, secret=secret, **rest)


def _with_options(
    command: Callable[..., None], name: str, make: Callable[..., Any], options: tuple[Parameter, ...]
) -> Callable[..., None]:
    """The command with `options` in place of its parameter `name`, which is made of them."""
    own = signature(command)

    @wraps(command)
    def run(_ctx: typer.Context, **given: Any) -> None:
        chosen = {option.name: given.pop(option.name) for option in options}
        _fill(_ctx, chosen, elsewhere=bool(given.get("where")))
        tls = Tls(chosen.pop("ca"), chosen.pop("certificate"), chosen.pop("key"))
        command(**given, **{name: make(tls=tls, **chosen)})

    kept = [parameter for parameter in own.parameters.values() if parameter.name != name]
    parameters = [_CONTEXT, *kept, *options]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _fill(ctx: typer.Context, chosen: dict[str, Any], *, elsewhere: bool) -> None:
    """Take what nobody has given from a context; nothing where the node is named otherwise.

    Raises `CommandError`.
    """
    from broker.cli import contexts

    def source(option: str) -> str:
        found = ctx.get_parameter_source(option)
        return found.name if found is not None else "DEFAULT"

    name = chosen.pop("context")
    if elsewhere or source("url") != "DEFAULT":
        if source("context") == "COMMANDLINE":
            other = "SAPWOOD_URL" if source("url") == "ENVIRONMENT" else "its address"
            raise CommandError(f"--context says where the node is: leave {other} out", WRONG_USE)
        return
    kept = contexts.read()
    if not (name or kept.current):
        return
    context = kept.named(name or kept.current)
    chosen["url"] = context.url
    if context.token_file and "COMMANDLINE" not in (source("token"), source("token_file")):
        chosen |= {"token": "", "token_file": Path(context.token_file)} if "token" in chosen else {}
    for option, file in zip(("ca", "certificate", "key"), context.files, strict=True):
        chosen[option] = chosen[option] or file
