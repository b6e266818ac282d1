"""The names, options and help of all commands. Surprise: nothing heavy is imported at the top, on purpose."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli import (
    account_commands,
    administer,
    context_commands,
    definition_commands,
    enrol_commands,
    idl_commands,
    message_commands,
    operator_commands,
    plain,
    route_commands,
)
from broker.cli.options import (
    File,
    Json,
    OperatorOptions,
    Secret,
    UrlArgument,
    asks_a_node,
    group,
)
from broker.cli.sections import Sections

app = typer.Typer(
    name="sapwood",
    cls=Sections,
    epilog="Begin with `sapwood demo`. Exit codes: 0 well, 1 failed, 2 wrong usage or configuration.",
    help="Sapwood joins the message brokers of a chain of sites into one tree.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
node_app = group("Run, check and look after the node of this site.")
config_app = group("Write sites' files, schemas, permissions.")
app.add_typer(node_app, name="node")
app.add_typer(config_app, name="config")
account_commands.add_to(app)
operator_commands.add_to(app)
context_commands.add_to(app)
administer.add_to(app)
route_commands.add_to(app)
definition_commands.add_to(app)
enrol_commands.add_to(app)
plain.add_to(app)
message_commands.add_to(app)
idl_commands.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"sapwood {version('sapwood-node')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself; the commands do the rest."""


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the chain running at the end.")] = False,
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Folder for the advisory logs, to be audited.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a small chain, break it, and count what arrived.

    HQ, two regions and six stores, each a real node: a store is killed, its region is cut off.
    """
    from broker.cli.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep, as_json=json, logs=logs))


@node_app.command("run")
def node_run(
    file: File, json: Annotated[bool, typer.Option("--json", help="Write log lines as JSON.")] = False
) -> None:
    """Run the node until SIGTERM or Ctrl-C."""
    from broker.cli.run import run_file

    raise typer.Exit(run_file(file, log_json=json))


@node_app.command("check")
def node_check(file: File, json: Json = False) -> None:
    """Say everything that is wrong with a site's file and machine. Changes nothing."""
    from broker.cli.check import check_file

    raise typer.Exit(check_file(file, as_json=json))


@node_app.command("locate")
@asks_a_node
def node_locate(
    lan: Annotated[
        bool, typer.Option("--lan", help="Ask this network for parents by multicast; no node need run.")
    ] = False,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", metavar="ADDRESS", help="Own address to ask from."),
    ] = None,
    *,
    asked: OperatorOptions,
) -> None:
    """Let a running node look its parent and its mesh up now (srv://). If it has moved, the link follows."""
    from broker.cli.locate import locate, show_lan

    if lan:
        show_lan(line or [], as_json=asked.json)
    else:
        locate(asked)


@node_app.command("recover")
def node_recover(
    file: File,
    force: Annotated[bool, typer.Option("--force", help="Even if the store seems sound.")] = False,
    json: Json = False,
) -> None:
    """Save what can be saved from a damaged store. The node must be stopped; the old file is kept."""
    from broker.cli.recover import recover_file

    recover_file(file, force=force, as_json=json)


@config_app.command("fleet")
def config_fleet(
    table: Annotated[Path, typer.Argument(metavar="SITES.CSV", help="One row a site.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write into.")] = Path("sites"),
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Make a secret for every link too, once; they are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the files of a whole chain from one table. Nothing is written unless the table is one tree."""
    from broker.cli.configuration import write_fleet_files

    write_fleet_files(table, out, secrets=secrets, as_json=json)


@config_app.command("convert")
def config_convert(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="mosquitto.conf, RabbitMQ's definitions, or activemq.xml")
    ],
    connection: Annotated[
        str, typer.Option("--connection", help="Which bridge, shovel, upstream or connector of several.")
    ] = "",
    name: Annotated[str, typer.Option("--name", help="The node's name.")] = "",
    tree: Annotated[str, typer.Option("--tree", help="The tree's name.")] = "",
    parent: Annotated[
        str, typer.Option("--parent", help="The parent's address, in place of the broker's there.")
    ] = "",
    xml: Annotated[bool, typer.Option("--xml", help="Write XML instead of YAML.")] = False,
    json: Json = False,
) -> None:
    """Turn another broker's bridge into a site's file. Comments say what has no counterpart."""
    from broker.cli.configuration import CommandLineValues, print_converted

    print_converted(file, CommandLineValues(connection, name, tree, parent), xml=xml, as_json=json)


@config_app.command("acl")
def config_acl(
    file: File,
    child: Annotated[
        list[str] | None, typer.Option("--child", help="A child, beside those that the file permits.")
    ] = None,
    dynamic_security: Annotated[
        bool, typer.Option("--dynamic-security", help="For Mosquitto's plugin instead of its acl_file.")
    ] = False,
    json: Json = False,
) -> None:
    """Print each child's permissions at the link brokers. They keep it to its own topics or queues."""
    from broker.cli.acl import print_permissions

    print_permissions(file, child or [], dynamic_security=dynamic_security, as_json=json)


@config_app.command("reference")
def config_reference(
    xml: Annotated[bool, typer.Option("--xml", help="Write XML instead of YAML.")] = False,
    json: Json = False,
) -> None:
    """Print every setting with its meaning and default. As a site's file with comments."""
    from broker.cli.configuration import print_reference

    print_reference(xml=xml, as_json=json)


@config_app.command("schema")
def config_schema(
    xsd: Annotated[bool, typer.Option("--xsd", help="The XSD of XML files instead.")] = False,
    json: Json = False,
) -> None:
    """Print the JSON Schema of YAML files, or the XSD of XML files."""
    from broker.cli.configuration import print_schema

    print_schema(xsd=xsd, as_json=json)


@app.command()
@asks_a_node
def status(where: UrlArgument = "", *, asked: OperatorOptions) -> None:
    """Show a running node: place in the tree, links, queues."""
    from broker.cli.status import show_status

    show_status(asked.at(where).api, as_json=asked.json)


@app.command()
@asks_a_node
def top(
    where: UrlArgument = "",
    interval: Annotated[float, typer.Option("--interval", help="Seconds between two looks.")] = 2.0,
    sort: Annotated[
        str, typer.Option("--sort", help="Queues by: messages, oldest, rate or name.")
    ] = "messages",
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the nodes below that are down, instead of queues.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print one look below the other.")] = False,
    *,
    asked: OperatorOptions,
) -> None:
    """Watch a running node live. Links, rates, busiest queues, dead letters; Ctrl-C ends it."""
    from broker.cli.top.run import show_top

    show_top(
        asked.at(where).api,
        interval=interval,
        sort=sort,
        tree=tree,
        once=once,
        plain=plain,
        as_json=asked.json,
    )


@app.command()
@asks_a_node
def forward(
    port: Annotated[
        int,
        typer.Argument(metavar="LOCAL_PORT", min=0, max=65535, help="Port to listen on here; 0: any."),
    ],
    target: Annotated[
        str, typer.Argument(metavar="NODE:NAME", help="A node, and what its file offers by that name.")
    ],
    *,
    asked: OperatorOptions,
) -> None:
    """Reach a TCP service of another site through the tree. Its node's file names it; Ctrl-C ends."""
    from broker.cli.forward import forward as run_forward

    run_forward(asked.api, port, target, as_json=asked.json)


@app.command()
@asks_a_node
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file here, or NODE:FILE.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="NODE: or NODE:FILE, or a folder or file here.")
    ],
    folder: Annotated[
        str, typer.Option("--folder", help="Which of the folders that the node's file names.")
    ] = "files",
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to go on trying when the line has broken.")
    ] = 60.0,
    *,
    asked: OperatorOptions,
) -> None:
    """Copy a file to another site, or from it. The node there names the folder; what broke off goes on."""
    from broker.cli.copy import copy as run_copy

    run_copy(asked.api, source, target, folder, wait, as_json=asked.json)


@app.command()
@asks_a_node
def trace(
    message: Annotated[str, typer.Argument(metavar="MESSAGE-ID", help="As receive --json prints it.")] = "",
    task: Annotated[str, typer.Option("--task", help="All messages of a task instead.")] = "",
    channel: Annotated[
        str,
        typer.Option("--channel", help="A channel instead: its number, or NAME@NODE of the latest there."),
    ] = "",
    *,
    asked: OperatorOptions,
) -> None:
    """Show the way of a message or a channel, or all that a task set off. From node to node, with times."""
    from broker.cli.trace import show_trace

    show_trace(asked.api, message, task, channel, as_json=asked.json)


@app.command()
@asks_a_node
def shell(
    node: Annotated[
        str, typer.Argument(metavar="[NODE]", help="The node to begin at; the one that is asked if absent.")
    ] = "",
    secret: Secret = "",
    *,
    asked: OperatorOptions,
) -> None:
    """Ask nodes and services at a prompt. Commands on standard input are a script."""
    from broker.cli.shell import run_shell

    run_shell(typer.main.get_command(app), asked, node, secret)


@app.command()
def simulate(
    deployment: Annotated[
        str,
        typer.Argument(
            metavar="DEPLOYMENT", help="A table of sites, or stores=N,regions=N,fan_out=N,depth=N."
        ),
    ] = "",
    workload: Annotated[
        Path | None, typer.Option("--workload", help="YAML: who reads, comes, goes, fails and sends.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0, max=87_600, help="How long, on the virtual clock.")
    ] = 24.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the advisory log and the summary.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same log.")] = 1,
    soak: Annotated[
        int, typer.Option("--soak", min=0, help="Instead: run so many random histories and check them.")
    ] = 0,
    trial: Annotated[str, typer.Option("--trial", help="(--soak) Only histories of this kind.")] = "",
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Instead: live again through a history that failed.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a whole chain for a day in this process. It writes what the nodes would write."""
    from broker.cli.simulate import refuse_chain, run_again, run_simulation, run_soak

    if soak or replay is not None:
        refuse_chain("--soak" if soak else "--replay", deployment, workload)
    if replay is not None:
        raise typer.Exit(run_again(replay, as_json=json))
    if soak:
        raise typer.Exit(run_soak(seed, soak, trial, out, as_json=json))
    raise typer.Exit(run_simulation(deployment, workload, hours, out, seed, as_json=json))


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish")],
    json: Json = False,
) -> None:
    """Print a shell's completion of this program. For bash: eval "$(sapwood completion bash)".

    zsh is told the same way, fish with `sapwood completion fish | source`.
    """
    from broker.cli.completion import print_completion

    print_completion(shell, as_json=json)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def audit(context: typer.Context) -> None:
    """Audit advisory logs with Spark. What consumers cost, what was spilled, what others would cost.

    `sapwood audit --help` shows its options.
    """
    from audit.cli import main as run_audit

    raise typer.Exit(run_audit(context.args))
