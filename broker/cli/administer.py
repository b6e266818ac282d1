"""The names, options and help of the commands that look at a node and administrate it."""

import sys
from typing import Annotated

import typer

from broker.cli.options import (
    ClientOptions,
    Limit,
    OperatorOptions,
    Search,
    Yes,
    asks_a_node,
    group,
    talks_to_a_node,
)

subscription_app = group("Durable subscriptions.")


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.command()(queues)
    app.command()(follow)
    app.add_typer(subscription_app, name="subscription")


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


@subscription_app.command("end")
@talks_to_a_node
def subscription_end(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The durable subscription's name.")],
    yes: Yes = False,
    *,
    client: ClientOptions,
) -> None:
    """End a session's durable subscription for good. --session says whose; what waits for it goes, too."""
    from broker.cli.subscriptions import end_subscription

    if not yes and sys.stdin.isatty():
        typer.confirm(f"End {name} at {client.url} with all that waits for it?", abort=True, err=True)
    end_subscription(client.login, name, as_json=client.json)
