"""`sapwood send` and `sapwood receive`: their names, options and help."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.options import ClientOptions, talks_to_a_node


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.command()(send)
    app.command()(receive)


@talks_to_a_node
def send(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="queue:NAME, queue:NAME@NODE or topic:NAME")
    ],
    payload: Annotated[
        str | None, typer.Argument(metavar="PAYLOAD", help="The message; '-' reads standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Send what this file holds.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of the input is a message.")] = False,
    volatile: Annotated[
        bool, typer.Option("--volatile", help="Keep it in memory only: faster, may be lost.")
    ] = False,
    retained: Annotated[
        bool, typer.Option("--retained", help="(topics) Later subscribers get it too.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; may be given again."),
    ] = None,
    reply_to: Annotated[str, typer.Option("--reply-to", help="The queue that answers go to.")] = "",
    correlation_id: Annotated[
        int | None, typer.Option("--correlation-id", help="A number that comes back with the answer.")
    ] = None,
    expires_in: Annotated[
        float, typer.Option("--expires-in", min=0, max=1e9, help="Seconds until nobody gets it; 0: never.")
    ] = 0.0,
    content_type: Annotated[str, typer.Option("--content-type", help="As application/json.")] = "",
    *,
    client: ClientOptions,
) -> None:
    """Send messages; return when they are on the node's disk."""
    from broker.cli.messages import SendOptions, properties_of, send_all

    properties = properties_of(header or [], reply_to, correlation_id, expires_in, content_type)
    what = SendOptions(destination, payload, file, lines, not volatile, retained, properties)
    send_all(client.login, what, as_json=client.json)


@talks_to_a_node
def receive(
    destination: Annotated[str, typer.Argument(metavar="DEST", help="queue:NAME or topic:PATTERN")],
    count: Annotated[int, typer.Option("--count", min=1, help="Stop after so many messages.")] = 1,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Most seconds to wait for them.")] = 10.0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    durable: Annotated[
        str, typer.Option("--durable", help="(topics) Name of a subscription that outlives this.")
    ] = "",
    *,
    client: ClientOptions,
) -> None:
    """Receive messages, print and acknowledge them."""
    from broker.cli.messages import ReceiveOptions, receive_all

    what = ReceiveOptions(destination, count, wait, follow, durable)
    receive_all(client.login, what, as_json=client.json)
