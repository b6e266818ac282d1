"""The names, options and help of the commands that look at a node and administrate it."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.options import (
    ClientOptions,
    Limit,
    OperatorOptions,
    Search,
    Yes,
    asks_a_node,
    talks_to_a_node,
)

if TYPE_CHECKING:
    from broker.cli.dead import Which

queue_app = typer.Typer(
    help="Delete a queue, or one of its messages.", no_args_is_help=True, rich_markup_mode=None
)
dead_app = typer.Typer(
    help="Dead letters: list, route again, throw away.", no_args_is_help=True, rich_markup_mode=None
)
subscription_app = typer.Typer(help="Durable subscriptions.", no_args_is_help=True, rich_markup_mode=None)

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids, as `dead list` shows them.")]
Reason = Annotated[str, typer.Option("--reason", help="Only those with this reason, as EXPIRED.")]
Where = Annotated[str, typer.Option("--destination", help="Only those for this: queue:NAME, topic:PATTERN.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.command()(queues)
    app.command()(follow)
    app.add_typer(queue_app, name="queue")
    app.add_typer(dead_app, name="dead")
    app.add_typer(subscription_app, name="subscription")


def _sure(question: str, yes: bool) -> None:
    """Ask a person; a program knows what it does."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)


@asks_a_node
def queues(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One queue with its messages.")] = "",
    search: Search = "",
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            help="name, messages, bytes, oldest_s, readers, latency_s; in_ or out_, per_s or total.",
        ),
    ] = "messages",
    limit: Limit = 100,
    *,
    asked: OperatorOptions,
) -> None:
    """List a node's queues, or show one with its messages."""
    from broker.cli.queues import show_queue, show_queues

    if name:
        show_queue(asked.api, name, limit, as_json=asked.json)
    else:
        show_queues(asked.api, search, sort, limit, as_json=asked.json)


@asks_a_node
def follow(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="queue:NAME or topic:PATTERN; all if absent.")
    ] = "",
    session: Annotated[str, typer.Option("--session", help="Only of this session.")] = "",
    task: Annotated[str, typer.Option("--task", help="Only of this task.")] = "",
    correlation_id: Annotated[
        int | None, typer.Option("--correlation-id", help="Only with this correlation id.")
    ] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Print payloads too.")] = False,
    *,
    asked: OperatorOptions,
) -> None:
    """Follow messages that match, as they pass this node. Ctrl-C ends it."""
    from broker.cli.follow import follow as follow_messages

    follow_messages(
        asked.api,
        as_json=asked.json,
        destination=destination,
        session=session,
        task=task,
        correlation_id=correlation_id,
        payload=payload,
    )


def _which(ids: list[str] | None, reason: str, destination: str, all_of_them: bool = False) -> "Which":
    from broker.cli.dead import Which

    return Which(ids or [], reason, destination, all_of_them)


@dead_app.command("return")
@asks_a_node
def dead_return(
    ids: Ids = None,
    reason: Reason = "",
    destination: Where = "",
    all_of_them: All = False,
    *,
    asked: OperatorOptions,
) -> None:
    """Route dead letters again, as if they had come just now."""
    from broker.cli.dead import return_dead

    return_dead(asked.api, _which(ids, reason, destination, all_of_them), as_json=asked.json)


@dead_app.command("delete")
@asks_a_node
def dead_delete(
    ids: Ids = None,
    reason: Reason = "",
    destination: Where = "",
    all_of_them: All = False,
    yes: Yes = False,
    *,
    asked: OperatorOptions,
) -> None:
    """Throw dead letters away."""
    from broker.cli.dead import delete_dead

    which = _which(ids, reason, destination, all_of_them)
    which.body()
    if not ids:
        _sure(f"Throw all such dead letters of {asked.url} away?", yes)
    delete_dead(asked.api, which, as_json=asked.json)


@subscription_app.command("end")
@talks_to_a_node
def subscription_end(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The durable subscription's name.")],
    *,
    client: ClientOptions,
) -> None:
    """End a session's durable subscription for good. --session says whose; what waits for it goes, too."""
    from broker.cli.subscriptions import end_subscription

    end_subscription(client.login, name, as_json=client.json)
