"""The options of `sapwood audit`, and how their values are read."""

import argparse
import math
import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from audit.errors import UsageError

LONGEST: Final = 9
"""Digits of a number of such units."""
UNITS: Final = ("second", "minute", "hour", "day", "week")
"""What Spark reads as parts of a time of fixed length."""
FORMATS: Final = ("parquet", "delta")
"""Those of `storage`, which needs pyarrow."""
_N: Final = r"[1-9]\d{0,8}"
_MASTER: Final = re.compile(
    rf"local(\[({_N}|\*)(\s*,\s*{_N})?\])?|local-cluster\[\s*{_N}\s*,\s*{_N}\s*,\s*{_N}\s*\]"
    rf"|spark://[^/,]+:{_N}(,[^/,]+:{_N})*|yarn|k8s://.+"
)
"""As Spark reads it."""
_OF_YARN: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
Period = tuple[datetime | None, datetime | None]
MOST_CONSUMERS: Final = 1_000_000
"""Of one rule at each node: the sums over a million nodes have room in 64 bits."""
OF_A_WHOLE_LOG: Final = (
    "--json",
    "--since",
    "--until",
    "--day",
    "--again",
    "--consumer-events",
    "--consumers",
    "--ttl",
    "--usage",
    "--figures",
    "--limit",
    "--strict",
    "--require-all",
    "--require-share",
)
OF_A_FOLLOWER: Final = ("--window", "--late", "--storm", "--webhook", "--alert-to")
FIGURES: Final = ("routes", "links", "spool_bytes")
"""What has a limit of its own; the keys of `capacity.LIMITS`, which needs Spark."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sapwood audit",
        description="Read advisory logs: what consumers cost, whether advisories reached nodes that cannot"
        " use them, and what other networks of brokers would have cost. Runs on Spark; see docs/audit.md.",
    )
    parser.add_argument(
        "logs", nargs="*", metavar="LOG", help="files and folders: JSON lines, also .gz, and Parquet"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("report"), help="folder for what is written [report]"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--master", default="", help="Spark's master; [all cores of this machine]")
    parser.add_argument(
        "--spark",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    _of_input(parser)
    _of_what_if(parser)
    _of_capacity(parser)
    _of_gates(parser)
    _of_history(parser)
    _of_following(parser)
    return parser


def _of_input(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is audited").add_argument
    add("--deployment", metavar="FILE", help="the table of sites (CSV or Parquet): name, parent, role")
    add(
        "--from",
        dest="source",
        choices=("activemq", "nats"),
        help="the logs are another broker's: import them",
    )
    add("--tree", default="", metavar="NAME", help="the tree to audit, where the logs of several lie there")
    add(
        "--since",
        default="",
        metavar="TIME",
        help="leave out what was before, such as 2026-03-14 or …T08:00Z",
    )
    add("--until", default="", metavar="TIME", help="leave out what was then and later")
    add("--day", default="", metavar="DATE", help="one day, UTC: --since and --until it; also 'yesterday'")
    add(
        "--consumer-events",
        action="store_true",
        help="a row for each coming and going of a consumer, also of a large log",
    )


def _of_what_if(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what other networks would cost").add_argument
    add("--ttl", type=int, default=4, metavar="K", help="network connectors with TTL 1 to K [4]")
    add(
        "--consumers",
        action="append",
        default=[],
        metavar="ROLE:SHARING:COUNT[:KIND]",
        help="a population instead of the logs' own, such as leaf:own:25 or leaf:offers:3:topic",
    )


def _of_capacity(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is used, and what will be full").add_argument
    add("--usage", default="", metavar="FILE", help="messages by route: node, kind, destination, messages")
    add("--figures", default="", metavar="FILE", help="figures over time: node, figure, at, value")
    add(
        "--limit",
        action="append",
        default=[],
        metavar="FIGURE=N",
        help="what is full: routes=50000, links=…, spool_bytes=…",
    )


def _of_gates(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("exit code 1").add_argument
    add("--strict", action="store_true", help="if anything was spilled, or not everything could be judged")
    add("--require-all", action="store_true", help="if there is a site without a log")
    add(
        "--require-share",
        type=share,
        default=0.0,
        metavar="P",
        help="if fewer of the sites have a log, such as 95%%",
    )


def _of_history(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("tables by day").add_argument
    add(
        "--history",
        default="",
        metavar="URL",
        help="add the tables of a day there, once: a folder, s3://BUCKET/…, … [of yesterday];"
        " follow: the counts",
    )
    add(
        "--history-format",
        choices=FORMATS,
        default="",
        help="files of Parquet, or Delta tables (extra delta) [as it is there, else parquet]",
    )
    add("--again", action="store_true", help="audit a day anew that is there, and replace it")


def _of_following(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("following").add_argument
    add(
        "--follow",
        metavar="DIR",
        type=Path,
        help="go on while logs arrive below DIR: alerts and counts in --out",
    )
    add("--window", default="5 minutes", help="counts for each such time [5 minutes]")
    add("--late", default="10 minutes", help="how late a row may be [10 minutes]")
    add("--storm", type=int, default=1000, metavar="N", help="advisories in a window that are a storm")
    add("--webhook", default="", metavar="URL", help="POST each alert there too")
    add("--alert-to", default="", metavar="DEST@URL", help="send each alert to queue:NAME@http://NODE")


def share(text: str) -> float:
    """'95%' or '0.95'."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a share such as 95% or 0.95")
    return share


def refuse_strange(options: argparse.Namespace) -> None:
    """Raises `UsageError` for an option that has no meaning with, or without, `--follow`."""
    usual = parser()
    for option in OF_A_WHOLE_LOG if options.follow else OF_A_FOLLOWER:
        name = option.removeprefix("--").replace("-", "_")
        if getattr(options, name) == usual.get_default(name):
            continue
        if options.follow:
            raise UsageError(
                f"{option} and --follow: expected one of them; a follower tells alerts and counts as logs"
                " arrive, and judges no whole log: audit it by itself"
            )
        raise UsageError(f"{option} without --follow: expected both; it is a follower's")


def check_time(option: str, text: str, *, least: int) -> None:
    """Spark would say it only after its start, and its log in many lines."""
    words = text.split()
    amounts, units = words[::2], words[1::2]
    well = len(amounts) == len(units) > 0 and all(unit.removesuffix("s") in UNITS for unit in units)
    if not well or not all(len(one) <= LONGEST and one.isascii() and one.isdigit() for one in amounts):
        raise UsageError(f"{option} {text}: expected a time such as '10 seconds', '5 minutes' or '1 hour'")
    if sum(map(int, amounts)) < least:
        raise UsageError(f"{option} {text}: expected more than nothing, such as '5 minutes'")


def check_master(options: argparse.Namespace) -> None:
    """Spark would say it only after its start, with the stack of Java. Raises `UsageError`."""
    master = options.master or dict(pair(text, "--spark") for text in options.spark).get("spark.master", "")
    if master and not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master}: expected local[*], local[2], local-cluster[2,1,2048], spark://HOST:PORT,"
            " yarn or k8s://HOST:PORT"
        )
    if master == "yarn" and not any(name in os.environ for name in _OF_YARN):
        raise UsageError(f"--master yarn: expected {' or '.join(_OF_YARN)} in the environment")


def rule(text: str) -> tuple[str, str, int, str]:
    role, sharing, count, kind, *more = [*text.split(":"), *["queue"] * (4 - len(text.split(":")))]
    number = count.isascii() and count.isdigit() and len(count) <= LONGEST and int(count) <= MOST_CONSUMERS
    if more or not number or not sharing or kind not in ("queue", "topic"):
        raise UsageError(
            f"--consumers {text}: expected ROLE:own:COUNT, or ROLE:GROUP:COUNT for shared ones;"
            f" with :topic after it if they are topics; COUNT is at most {MOST_CONSUMERS:,}"
        )
    return role, sharing, int(count), kind


def limits(options: argparse.Namespace) -> dict[str, float]:
    """Limits by figure. Raises `UsageError` for one of a figure that there cannot be."""
    limits = dict(limit(text) for text in options.limit)
    for name, value in limits.items():
        if name not in FIGURES and not options.figures:
            known = ", ".join(FIGURES)
            raise UsageError(f"--limit {name}={value:g}: expected {known}, or a figure of --figures FILE")
    return limits


def limit(text: str) -> tuple[str, float]:
    name, value = pair(text, "--limit")
    try:
        limit = float(value)
    except ValueError:
        raise UsageError(f"--limit {text}: expected FIGURE=NUMBER") from None
    if not 0 < limit < math.inf:
        raise UsageError(f"--limit {text}: expected a number above 0")
    return name, limit


def pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def period(options: argparse.Namespace) -> Period:
    """From when until when, each None where nothing bounds it. Raises `UsageError` for what is no time, and
    for a history of anything but one day."""
    if options.day or options.history:
        return _one_day(options)
    since, until = _moment("--since", options.since), _moment("--until", options.until)
    if since and until and since >= until:
        raise UsageError(f"--since {options.since} --until {options.until}: expected the earlier first")
    return since, until


def _one_day(options: argparse.Namespace) -> Period:
    if options.since or options.until:
        which = "--day" if options.day else "--history"
        raise UsageError(f"{which} with --since or --until: expected one of them; a day is from 0 to 24 UTC")
    if options.history and not options.logs:
        raise UsageError("--history without LOG: expected the logs of the day")
    text = options.day or "yesterday"
    try:
        today = datetime.now(UTC).date()
        day = today - timedelta(days=1) if text == "yesterday" else date.fromisoformat(text)
        since = datetime(day.year, day.month, day.day, tzinfo=UTC)
        until = since + timedelta(days=1)
    except (ValueError, OverflowError):
        raise UsageError(f"--day {text}: expected a date such as 2026-03-14, or 'yesterday'") from None
    if options.history and day >= today:
        raise UsageError(
            f"--day {text} with --history: it is not over before 24 UTC, and would be kept as it is now:"
            " expected a day that is"
        )
    return since, until


def _moment(option: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text}: expected a time such as 2026-03-14 or 2026-03-14T08:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
