"""The command line: `sapwood audit`, `python -m audit`, and under spark-submit.

Surprise: Spark is imported only once the options are right, so that help and mistakes cost nothing.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from audit.errors import AuditError, UsageError

WELL: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
SITES_WEIGHT: Final = 20
"""What a byte of the table of sites counts for beside the logs': each site is joined with all above it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the audit; returns the exit code: 0 well, 1 failed, 2 wrong usage."""
    try:
        return _run(_parser().parse_args(arguments))
    except UsageError as error:
        print(f"sapwood: {error}", file=sys.stderr)
        return WRONG_USE
    except AuditError as error:
        print(f"sapwood: {error}", file=sys.stderr)
        return FAILED
    except SystemExit as ended:  # argparse has said why
        return ended.code if isinstance(ended.code, int) else WRONG_USE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sapwood audit",
        description="Read advisory logs: what consumers cost, whether advisories reached nodes that cannot"
        " use them, and what other networks of brokers would have cost. Runs on Spark; see docs/audit.md.",
    )
    add = parser.add_argument
    add("logs", nargs="*", metavar="LOG", help="files and folders: JSON lines, also .gz, and Parquet")
    add("--deployment", metavar="FILE", help="the table of sites (CSV or Parquet): name, parent, role")
    add("--out", metavar="DIR", type=Path, default=Path("audit"), help="folder for tables and report [audit]")
    add("--master", default="", help="Spark's master; [all cores of this machine]")
    add(
        "--spark",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    add("--ttl", type=int, default=4, metavar="K", help="what-if: network connectors with TTL 1 to K [4]")
    add(
        "--consumers",
        action="append",
        default=[],
        metavar="ROLE:SHARING:COUNT",
        help="what-if: a population instead of the logs' own, such as leaf:own:25 or leaf:offers:3",
    )
    add("--usage", default="", metavar="FILE", help="messages by route: node, kind, destination, messages")
    add("--figures", default="", metavar="FILE", help="figures over time: node, figure, at, value")
    add(
        "--limit",
        action="append",
        default=[],
        metavar="FIGURE=N",
        help="what is full: routes=50000, links=…, spool_bytes=…",
    )
    add(
        "--from",
        dest="source",
        choices=("activemq", "nats"),
        help="the logs are another broker's: import them",
    )
    add(
        "--follow",
        metavar="DIR",
        type=Path,
        help="go on while logs arrive below DIR: alerts and counts in --out",
    )
    add("--window", default="5 minutes", help="follow: counts for each such time [5 minutes]")
    add("--late", default="10 minutes", help="follow: how late a row may be [10 minutes]")
    add(
        "--storm", type=int, default=1000, metavar="N", help="follow: advisories in a window that are a storm"
    )
    add("--webhook", default="", metavar="URL", help="follow: POST each alert there too")
    add(
        "--alert-to", default="", metavar="DEST@URL", help="follow: send each alert to queue:NAME@http://NODE"
    )
    add("--strict", action="store_true", help="exit code 1 if anything was spilled")
    add("--json", action="store_true", help="print the summary as JSON")
    return parser


def _run(options: argparse.Namespace) -> int:
    _check(options)
    if options.follow:
        return _follow(options)
    rules, limits = [_rule(text) for text in options.consumers], dict(_limit(text) for text in options.limit)
    settings = dict(_pair(text, "--spark") for text in options.spark)
    from audit.session import start

    session = start(options.master, _data_bytes(options), settings)
    try:
        from audit.run import Request, audit

        logs = _imported(session, options) if options.source else options.logs
        request = Request(
            logs,
            options.deployment,
            options.out,
            range(1, options.ttl + 1),
            rules,
            options.usage,
            options.figures,
            limits,
        )
        summary = audit(session, request)
    finally:
        session.stop()
    _print(summary, as_json=options.json)
    return FAILED if options.strict and summary["verdicts"]["spilled"] else WELL


def _data_bytes(options: argparse.Namespace) -> int:
    """For how much data the session is to be fit. Raises `UsageError` for a log that is not there."""
    from audit.listing import is_local, list_local

    logs = list_local([path for path in options.logs if is_local(path)]).unpacked
    sites = Path(options.deployment)
    return logs + SITES_WEIGHT * (sites.stat().st_size if sites.is_file() else 0)


def _check(options: argparse.Namespace) -> None:
    if not options.deployment:
        raise UsageError(
            "--deployment is missing: expected the table of sites, as for 'sapwood config fleet'"
        )
    if not options.logs and not options.consumers and not options.follow:
        raise UsageError("no logs: expected files or folders, or --consumers for what-if alone")
    if not 1 <= options.ttl <= 32:
        raise UsageError(f"--ttl {options.ttl}: expected 1 to 32")


def _imported(session: Any, options: argparse.Namespace) -> list[str]:
    """Import the logs of another broker into OUT/imported; return where they are now."""
    from audit.importers import import_log
    from audit.listing import list_all
    from audit.output import url

    target = options.out / "imported"
    broken = import_log(session, options.source, list_all(session, options.logs), url(target))
    if broken:
        print(f"sapwood: {broken:,} lines are none of {options.source}'s and were left out", file=sys.stderr)
    return [str(target)]


def _follow(options: argparse.Namespace) -> int:
    """Follow until Ctrl-C or SIGTERM; the next start goes on where this one ended."""
    from audit.alerts import Destination, Webhook

    if not options.follow.is_dir():
        raise UsageError(f"--follow {options.follow}: there is no such folder")
    receivers: list[Webhook | Destination] = [Webhook(options.webhook)] if options.webhook else []
    if options.alert_to:
        receivers.append(Destination(options.alert_to, os.environ.get("SAPWOOD_SESSION_SECRET", "")))
    settings = dict(_pair(text, "--spark") for text in options.spark)
    from audit.session import start

    session = start(options.master, _data_bytes(options), settings)
    from audit.deployment import make_tree, read_sites
    from audit.follow import Follower, Following

    how = Following(
        options.follow, options.out, options.window, options.late, options.storm, tuple(receivers)
    )
    signal.signal(signal.SIGTERM, _interrupted)
    follower = None
    try:
        follower = Follower(session, make_tree(read_sites(session, options.deployment)), how)
        print(f"following {options.follow}; alerts in {follower.alerts.folder}", flush=True)
        follower.run()
    except KeyboardInterrupt:
        return WELL
    finally:
        if follower is not None:
            _say_end(follower)
            follower.stop()
        session.stop()
    return FAILED


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _say_end(follower: Any) -> None:
    alerts = follower.alerts
    print(
        f"{follower.late:,} rows came too late for their window; {alerts.undelivered:,} alerts not delivered"
        + (f" ({alerts.last_error})" if alerts.last_error else "")
    )
    for path, why in sorted(follower.feeder.faults.items()):
        print(f"{path}: {why}", file=sys.stderr)


def _rule(text: str) -> tuple[str, str, int]:
    parts = text.split(":")
    if len(parts) != 3 or not parts[2].isdigit() or not parts[1]:
        raise UsageError(f"--consumers {text}: expected ROLE:own:COUNT, or ROLE:GROUP:COUNT for shared ones")
    return parts[0], parts[1], int(parts[2])


def _limit(text: str) -> tuple[str, float]:
    name, value = _pair(text, "--limit")
    try:
        return name, float(value)
    except ValueError:
        raise UsageError(f"--limit {text}: expected FIGURE=NUMBER") from None


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def _print(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    if not summary["files"]:
        _print_plan(summary)
        return
    verdicts = summary["verdicts"]
    print(
        f"{summary['rows']:,} rows of {summary['files']:,} files, {summary['advisories']:,} advisories"
        f" at {summary['nodes']:,} nodes: {verdicts['spilled']:,} spilled, {verdicts['needed']:,} needed"
    )
    for finding in summary["findings"]:
        print(f"- {finding['what']}\n  {finding['do']}")
    print(f"report: {summary['report']}")


def _print_plan(summary: dict[str, Any]) -> None:
    print(f"{summary['nodes']:,} nodes; advisories when all consumers come:")
    for scheme, added in sorted(summary["what_if"].items(), key=lambda pair: pair[1]):
        print(f"  {'this tree' if scheme == 'tree' else scheme:<36}{added:>20,}")
    print(f"report: {summary['report']}")
