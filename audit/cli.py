"""The command line: `sapwood audit`, `python -m audit`, and under spark-submit.

Surprise: Spark is imported only once the options are right, so that help and mistakes cost nothing.
"""

import argparse
import io
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Final

from audit.errors import AuditError, UsageError
from audit.findings import counted
from audit.listing import is_local, list_local, refuse_missing
from audit.options import check_master, check_time, limits, pair, parser, period, refuse_strange, rule

WELL: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
SITES_WEIGHT: Final = 20
"""What a byte of the table of sites counts for beside the logs': each site is joined with all above it."""
SPARK_HINT: Final = (
    "what it printed above may say more; if it lacks memory: --spark spark.driver.memory=4g,"
    " if disk: --spark spark.local.dir=DIR"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the audit; returns the exit code: 0 well, 1 failed, 2 wrong usage, 130 interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks stops nothing
    try:
        return _run(parser().parse_args(arguments))
    except UsageError as error:
        print(f"sapwood: {error}", file=sys.stderr)
        return WRONG_USE
    except AuditError as error:
        print(f"sapwood: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # argparse has said why
        return ended.code if isinstance(ended.code, int) else WRONG_USE
    except Exception as error:
        return _spark_failed(error)


def _spark_failed(error: Exception) -> int:
    """Say in a line why Spark failed, and return the exit code. Raises an error that is not Spark's."""
    if "pyspark" not in sys.modules:
        raise error
    from audit.session import failure

    why = failure(error)
    if isinstance(why, KeyboardInterrupt):
        return INTERRUPTED
    if why is None:
        raise error
    print(f"sapwood: Spark failed: {why}\n{SPARK_HINT}", file=sys.stderr)
    return FAILED


def _run(options: argparse.Namespace) -> int:
    _check(options)
    if options.follow:
        return _follow(options)
    rules, when = [rule(text) for text in options.consumers], period(options)
    given: dict[str, Any] = {"rules": rules, "limits": limits(options), "period": when}
    settings, size = _settings(options), _data_bytes(options)
    kept = _history(options, when)
    if kept and kept.done and not options.again:
        print(f"{kept.day} is in {options.history} already, run {kept.done[-1]}; --again audits it anew")
        return WELL
    given["named"] = kept is not None
    if is_local(options.deployment) and not options.logs:
        from audit import run

        summary = run.plan(_request(options, given), _tree(options))
    else:
        summary = _audit(options, given, settings, size)
    if kept and summary["rows"]:
        kept.append(options.out / "tables", summary)
    _print(summary, as_json=options.json)
    return _exit_code(summary, 1.0 if options.require_all else options.require_share, strict=options.strict)


def _audit(
    options: argparse.Namespace, given: dict[str, Any], settings: dict[str, str], size: int
) -> dict[str, Any]:
    """Audit logs on Spark. While Java starts, the table of sites is read, and what a report needs loaded.

    Wrinkle: the thread that loads it is waited for at the end. A process that ends in the middle of compiled
    code of a thread that nobody waits for is aborted.
    """
    from audit.session import Starting, break_off

    with _interruptible(break_off):
        with Starting(options.master, size, settings) as starting:
            from audit import run
            from audit.beside import prepare

            tree, request = _tree(options), _request(options, given)
            Thread(target=prepare, name="prepare").start()
            session = starting.session()
        try:
            return run.audit(session, request, tree)
        finally:
            session.stop()


@contextmanager
def _interruptible(break_off: Callable[[], None]) -> Iterator[None]:
    """While it lasts, Ctrl-C ends an audit without a word: Spark's Python would write the stacks of all that
    fails then. Where nobody listens to it, it stays so. `break_off`: done beside, as Spark may wait."""
    before, told = signal.getsignal(signal.SIGINT), False
    if before is not signal.default_int_handler:
        yield
        return

    def interrupt(*_: object) -> None:
        nonlocal told
        told = True
        logging.disable()
        warnings.simplefilter("ignore")
        Thread(target=break_off, name="break off").start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if told:  # a job that was ended in the midst fails with an error of its own
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _request(options: argparse.Namespace, given: dict[str, Any]) -> Any:
    """`given`: what was made of the options already."""
    from audit.run import Request

    return Request(
        options.logs,
        options.deployment,
        options.out,
        ttls=range(1, options.ttl + 1),
        usage=options.usage,
        figures=options.figures,
        source=options.source or "",
        every_event=options.consumer_events,
        tree=options.tree,
        **given,
    )


def _settings(options: argparse.Namespace) -> dict[str, str]:
    return dict(pair(text, "--spark") for text in options.spark)


def _tree(options: argparse.Namespace) -> Any:
    """The tree of a table of sites that is here; of another Spark has to read it."""
    from audit.deployment import load_tree

    return load_tree(options.deployment) if is_local(options.deployment) else None


def _history(options: argparse.Namespace, when: Any) -> Any:
    """The history that the audit is kept in, or None."""
    if not options.history:
        return None
    from audit.history import Day

    return Day(options.history, when[0].date(), options.tree, options.history_format)


def _exit_code(summary: dict[str, Any], share: float = 0.0, *, strict: bool) -> int:
    """0, or 1 with its reason said: nothing could be read, or more is asked for than can be claimed."""
    if summary["plan"]:
        return WELL
    if not summary["rows"]:
        read = f"no row of {counted(summary['files'], 'file')} could be used, see csv/files.csv"
        if not summary["files"]:
            read = "there is no log: expected names that end in .jsonl, .jsonl.gz or .parquet"
        print(f"sapwood: nothing was audited: {read}", file=sys.stderr)
        return FAILED
    judged = summary["judged"]
    if judged["share_of_nodes"] < share:
        print(
            f"sapwood: of {judged['share_of_nodes']:.1%} of the sites there is a log: expected {share:.1%};"
            " see csv/silent.csv",
            file=sys.stderr,
        )
        return FAILED
    if not strict or (judged["whole"] and not summary["verdicts"]["spilled"]):
        return WELL
    if not summary["verdicts"]["spilled"]:
        print(f"sapwood: --strict: {_unjudged(judged)}", file=sys.stderr)
    return FAILED


def _unjudged(judged: dict[str, Any]) -> str:
    return (
        f"{counted(judged['judged'], 'advisory')} of consumers judged, {judged['not_judged']:,} could not be;"
        f" {counted(judged['lines_lost'], 'line')} lost, {counted(judged['files_cut'], 'file')} cut,"
        f" {counted(judged['rows_missing'], 'row')} missing,"
        f" {counted(judged['nodes_with_two_logs'], 'node')} with two logs of one time,"
        f" {judged['rows_of_other_trees']:,} of other trees;"
        f" {counted(judged['nodes_up_without_log'], 'node')} up without a log"
    )


def _data_bytes(options: argparse.Namespace) -> int:
    """For how much data the session is to be fit. Raises `UsageError` for a log or a table that is not
    there."""
    for table in filter(None, (options.usage, options.figures)):
        refuse_missing(table, "a table, as CSV, JSON lines or Parquet")
    followed = [str(options.follow)] if options.follow else []
    near = [path for path in options.logs if is_local(path)]
    logs = list_local(near + followed, {} if followed else None).unpacked
    refuse_missing(options.deployment, "a table of sites")
    sites = Path(options.deployment)
    return logs + SITES_WEIGHT * (sites.stat().st_size if sites.is_file() else 0)


def _check(options: argparse.Namespace) -> None:
    if not options.deployment:
        raise UsageError(
            "--deployment is missing: expected the table of sites, as for 'sapwood config fleet'"
        )
    if options.follow and (options.logs or options.source):
        what = f"--from {options.source}" if options.source else f"LOG {options.logs[0]}"
        raise UsageError(
            f"{what} and --follow: expected one of them; --follow reads the nodes' own logs in DIR"
        )
    refuse_strange(options)
    if options.follow and options.history and not options.tree:
        raise UsageError("--follow with --history: expected --tree NAME, whose counts these are")
    if (options.again or options.history_format) and not options.history:
        which = "--again" if options.again else "--history-format"
        raise UsageError(f"{which} without --history URL: expected both")
    if options.storm < 1:
        raise UsageError(f"--storm {options.storm}: expected 1 or more")
    if not options.logs and not options.consumers and not options.follow:
        raise UsageError("no logs: expected files or folders, or --consumers for what-if alone")
    if not 1 <= options.ttl <= 32:
        raise UsageError(f"--ttl {options.ttl}: expected 1 to 32")
    check_master(options)
    check_time("--window", options.window, least=1)
    check_time("--late", options.late, least=0)


def _follow(options: argparse.Namespace) -> int:
    """Follow until Ctrl-C or SIGTERM; the next start goes on where this one ended."""
    from audit.alerts import Destination, Webhook

    if not options.follow.is_dir():
        raise UsageError(f"--follow {options.follow}: there is no such folder")
    receivers: list[Webhook | Destination] = [Webhook(options.webhook)] if options.webhook else []
    if options.alert_to:
        receivers.append(Destination(options.alert_to, os.environ.get("SAPWOOD_SESSION_SECRET", "")))
    from audit.session import TINY, Starting, end

    settings, size = _settings(options), max(TINY, _data_bytes(options))  # it is soon worth to compile
    ended = _Ended()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Starting(options.master, size, settings) as starting:
            tree = _tree(options)
            session = starting.session()
        try:
            ended.listen()
            from audit import given
            from audit.deployment import load_tree

            tree = tree or load_tree(options.deployment, given.far(session))
            _follow_with(session, options, tree, receivers, ended)
        except AuditError:
            raise
        except Exception as error:  # its Java is asked why while it still answers
            return _spark_failed(error)
        finally:
            end(session)
    except KeyboardInterrupt:
        pass
    finally:
        ended.ignore()
    return WELL


def _follow_with(
    session: Any, options: argparse.Namespace, tree: Any, receivers: Any, ended: "_Ended"
) -> None:
    from audit.follow import Follower, Following

    source, out = options.follow, options.out
    kept = (options.history, options.history_format)
    how = Following(
        source, out, options.window, options.late, options.storm, tuple(receivers), options.tree, kept
    )
    follower = Follower(session, tree, how)
    try:
        print(f"following {source}; alerts in {follower.alerts.folder}", flush=True)
        follower.run(lambda: ended.told)
    finally:
        follower.stop()
        _say_end(follower)


class _Ended:
    """Whether Ctrl-C or SIGTERM came.

    Wrinkle: an interrupt in the middle of a call to Spark breaks the connection to it. So once Spark is there
    they are only remembered.
    """

    def __init__(self) -> None:
        self.told = False

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._tell)

    def ignore(self) -> None:
        """The process ends now. Wrinkle: a handler that stays keeps objects of DuckDB until Python has gone,
        of which DuckDB complains as it does of a thread (`session.end`)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _tell(self, *_: object) -> None:
        self.told = True


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say_end(follower: Any) -> None:
    alerts = follower.alerts
    print(
        f"{counted(follower.late, 'row')} came too late for their window;"
        f" {counted(alerts.undelivered, 'alert')} not delivered"
        + (f" ({alerts.last_error})" if alerts.last_error else "")
    )
    for path, why in sorted(follower.feeder.faults.items()):
        print(f"{path}: {why}", file=sys.stderr)


def _print(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    if summary["plan"]:
        _print_plan(summary)
        return
    if not summary["rows"]:
        print(f"report: {summary['report']}")
        return
    verdicts = summary["verdicts"]
    print(
        f"{counted(summary['rows'], 'row')} of {counted(summary['files'], 'file')},"
        f" {counted(summary['advisories'], 'advisory')} at {counted(summary['nodes'], 'node')}:"
        f" {verdicts['spilled']:,} spilled, {verdicts['needed']:,} needed"
    )
    if not summary["judged"]["whole"]:
        print(f"not everything was judged: {_unjudged(summary['judged'])}")
    for finding in summary["findings"]:
        print(f"- {finding['what']}\n  {finding['do']}")
    print(f"report: {summary['report']}")


def _print_plan(summary: dict[str, Any]) -> None:
    print(f"{summary['nodes']:,} nodes; advisories when all consumers come, and the lines that data crosses")
    print("if the root sends one message to each destination:")
    for scheme, added in sorted(summary["what_if"].items(), key=lambda pair: pair[1]):
        crossed = summary["crossed"][scheme]
        data = "none arrives" if crossed is None else f"{crossed:,}"
        print(f"  {'this tree' if scheme == 'tree' else scheme:<36}{added:>20,}{data:>20}")
    print(f"report: {summary['report']}")
