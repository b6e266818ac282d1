"""The command line: what is wrong is said before Spark starts; the packaged file runs by itself."""

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from audit_tables import Begun, classes
from duckdb import InterruptException
from py4j.protocol import Py4JError, Py4JNetworkError

from audit import capacity, cli, options, package, queries, run, session
from audit.errors import SetUpError
from audit.queries import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["log"], "--deployment is missing"),
        (["--deployment", "sites.csv"], "no logs"),
        (["log", "--deployment", "s", "--ttl", "0"], "expected 1 to 32"),
        (["log", "--deployment", "s", "--consumers", "leaf:25"], "expected ROLE:own:COUNT"),
        (["log", "--deployment", "s", "--consumers", "leaf:own:²"], "expected ROLE:own:COUNT"),
        (["log", "--deployment", "s", "--consumers", "leaf:own:1000001"], "is at most 1,000,000"),
        (["log", "--deployment", "s", "--consumers", "leaf:own:" + "9" * 5000], "is at most 1,000,000"),
        (["log", "--deployment", "s", "--day", "9999-12-31"], "--day 9999-12-31: expected a date"),
        (["log", "--deployment", "s", "--limit", "routes=many"], "expected FIGURE=NUMBER"),
        (["log", "--deployment", "s", "--limit", "routes=nan"], "expected a number above 0"),
        (["log", "--deployment", "s", "--limit", "route=5"], "route=5: expected routes, links, spool_bytes"),
        (["log", "--deployment", "s", "--spark", "x"], "expected NAME=VALUE"),
        *(
            (["log", "--deployment", "s", "--master", master], f"--master {master}: expected local[*], ")
            for master in ("lokal[2]", "local[0]", "local[2", "spark://nobody", "local-cluster[2,1]")
        ),
        (["log", "--deployment", "s", "--spark", "spark.master=lokal"], "--master lokal: expected local[*]"),
        (["log", "--deployment", "s", "--master", "yarn"], "expected HADOOP_CONF_DIR or YARN_CONF_DIR"),
        (["--follow", ".", "--deployment", "s", "--window", "5x"], "--window 5x: expected a time such as"),
        (["--follow", ".", "--deployment", "s", "--window", "1 month"], "--window 1 month: expected a time"),
        (["--follow", ".", "--deployment", "s", "--window", "0 minutes"], "expected more than nothing"),
        (
            ["--follow", ".", "--deployment", "s", "--late", "-5 minutes"],
            "--late -5 minutes: expected a time",
        ),
        (["--follow", ".", "--deployment", "s", "--from", "nats"], "--from nats and --follow: expected one"),
        (["log", "--follow", ".", "--deployment", "s"], "LOG log and --follow: expected one of them"),
        (["--follow", ".", "--deployment", "s", "--window", "9" * 5000 + " days"], "expected a time"),
        *(
            (["--follow", ".", "--deployment", "s", *given], f"{given[0]} and --follow: expected one of them")
            for given in (
                *(["--json"], ["--day", "yesterday"], ["--since", "2026-03-14"], ["--strict"]),
                *(
                    ["--until", "2026-03-14"],
                    ["--again"],
                    ["--require-share", "95%"],
                    ["--limit", "routes=1"],
                ),
            )
        ),
        (["--follow", ".", "--deployment", "s", "--storm", "0"], "--storm 0: expected 1 or more"),
        (["log", "--deployment", "s", "--again"], "--again without --history URL: expected both"),
        (["log", "--deployment", "s", "--history-format", "delta"], "--history-format without --history"),
        (["log", "--deployment", "s", "--webhook", "http://x"], "--webhook without --follow: expected both"),
        (["log", "--deployment", "s", "--usage", "/nowhere.csv"], "/nowhere.csv: there is no such file"),
        (["log", "--deployment", "s", "--figures", "/nowhere.csv"], "/nowhere.csv: there is no such file"),
        (["/nowhere", "--deployment", "s"], "no such file or folder"),
        (["--follow", "/nowhere", "--deployment", "s"], "no such folder"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_use_is_said_at_once(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "sites.csv: there is no such file"),
        ("name,role\n", "sites.csv: no column parent"),
        (
            '# ours\nparent;name;role\n;hq;root\nhq;north;branch\n\n"nroth" north ; york;leaf\n',
            "sites.csv: line 6: 'york' has the parent 'nroth': no such name",
        ),
    ],
    ids=["absent", "columns", "parent"],
)
def test_a_table_of_sites_that_is_wrong_is_said_before_spark_starts(
    table: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its Java may start meanwhile, and is ended."""
    begun: list[Never] = []
    monkeypatch.setattr(session, "Starting", lambda *_: begun.append(Never()) or begun[0])
    sites = tmp_path / "sites.csv"
    if table is not None:
        sites.write_text(table)
    assert cli.main([str(DATA / "demo"), "--deployment", str(sites)]) == 2
    assert said in capsys.readouterr().err
    assert all(one.ended for one in begun)


class Never(contextlib.nullcontext[None]):
    """A session that nobody may wait for."""

    ended = False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True

    def session(self) -> None:
        pytest.fail("Spark was started")


def test_java_that_starts_for_nothing_is_ended_and_leaves_no_archive(tmp_path: Path) -> None:
    """One of the few classes that it has loaded would be taken for that of an audit, for good."""
    sites, mark = tmp_path / "sites.csv", f"spark.sapwood.mark={tmp_path.name}-{os.getpid()}"
    sites.write_text("name,parent,role\nhq,,root\nyork,nroth,leaf\n")
    command = [sys.executable, "-m", "audit", str(DATA / "demo"), "--deployment", str(sites), "--spark", mark]
    scratch = tmp_path / "of Java"
    scratch.mkdir()
    home = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, env=home)
    assert (done.returncode, "line 3: 'york' has the parent 'nroth'" in done.stderr) == (2, True), done.stderr
    assert not list(scratch.iterdir())
    assert "log level" not in done.stderr, "Spark begins without a word"
    left = [one for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or ())]
    assert not left
    assert not list((tmp_path / "cache").rglob("*.jsa"))


def test_a_cluster_that_nobody_answers_at_is_named_before_java_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr(session, "_launch", lambda *_: pytest.fail("Java was started"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"spark://127.0.0.1:{free.getsockname()[1]}"
    given = [str(DATA / "demo"), "--deployment", str(DATA / "stores.csv"), "--master", nobody]
    assert cli.main(given) == 1
    assert f"{nobody}: nobody answers: 127.0.0.1" in capsys.readouterr().err


def test_every_figure_with_a_limit_may_be_given_another() -> None:
    assert set(options.FIGURES) == set(capacity.LIMITS)


def test_help_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "--deployment" in capsys.readouterr().out


@pytest.fixture
def sizes(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The command line runs on the tests' session; here is for how many bytes it asked."""
    asked: list[int] = []
    monkeypatch.setattr(session, "break_off", lambda: None)  # it is not theirs alone
    monkeypatch.setattr(session, "Starting", lambda _master, size, *_: asked.append(size) or Begun(spark))
    return asked


def test_a_follower_s_session_is_fit_to_the_logs_that_are_there_and_never_to_a_small_audit(
    sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small audit's queries are not compiled, which is many times as slow for whoever goes on for hours."""
    monkeypatch.setattr(cli, "_follow_with", lambda *_: None)
    monkeypatch.setattr(session, "end", lambda _: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    follow = ["--follow", str(tmp_path), "--deployment", str(DATA / "stores.csv")]
    try:
        for bytes_there in (0, 2 * session.TINY):
            (tmp_path / "hq.jsonl").write_bytes(b"\n" * bytes_there)
            assert cli.main(follow) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert sizes[0] == session.TINY
    assert sizes[1] >= 2 * session.TINY


def test_another_brokers_log_is_audited_as_ours_is(
    sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the audit itself is left out here: what it would read is looked at."""
    asked: list[run.Request] = []

    def audit(_spark: object, request: run.Request, _tree: object) -> dict[str, object]:
        asked.append(request)
        return {"plan": True}

    monkeypatch.setattr(run, "audit", audit)
    log = ["--from", "nats", str(DATA / "leafz.jsonl"), "--deployment", str(DATA / "stores.csv"), "--json"]
    assert cli.main([*log, "--out", str(tmp_path)]) == 0, capsys.readouterr().err
    wanted = (DATA / "leafz.jsonl").stat().st_size + cli.SITES_WEIGHT * (DATA / "stores.csv").stat().st_size
    assert sizes == [wanted], "the session is fit to logs and table of sites"
    assert (asked[0].logs, asked[0].source) == ([str(DATA / "leafz.jsonl")], "nats")


@pytest.mark.parametrize("refused", [b"", b"no log at all\n"])
def test_logs_of_which_nothing_can_be_used_are_no_plan(
    sizes: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: bytes
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    if refused:
        (logs / "york.jsonl").write_bytes(refused)
    command = [str(logs), "--deployment", str(DATA / "stores.csv"), "--out", str(tmp_path / "out")]
    assert cli.main(command) == 1
    told = capsys.readouterr()
    assert "nothing was audited" in told.err
    assert ("no row of 1 file could be used" if refused else "there is no log") in told.err
    assert "this tree" not in told.out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No advisory of a consumer could be judged" in page
    assert "What it would cost" not in page


def failing(spark: "SparkSession") -> None:
    """A job of Spark's that fails in Java, and says so in hundreds of lines."""
    spark.sql("SELECT raise_error('no space left')").collect()


def refused(spark: "SparkSession") -> None:
    spark.sql("SELECT nowhere").collect()


def thrown(spark: "SparkSession") -> None:
    assert spark.sparkContext._jvm is not None
    spark.sparkContext._jvm.java.lang.System.load("nowhere")


def waited_for(spark: "SparkSession") -> None:
    """As of a disk that is full: of two exceptions the one within says why."""
    jvm: Any = spark.sparkContext._jvm
    full = jvm.java.io.IOException("No space left on device")
    waited = jvm.org.apache.spark.SparkException("Exception thrown in awaitResult: ", full)
    jvm.java.util.concurrent.CompletableFuture.failedFuture(waited).join()


def killed(_spark: "SparkSession") -> None:
    """Java was ended from outside, between two calls: by the system, for want of memory."""
    try:
        raise ConnectionRefusedError
    finally:
        raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (failing, "no space left"),
        (refused, "UNRESOLVED_COLUMN"),
        (thrown, "UnsatisfiedLinkError"),
        (waited_for, "No space left on device"),
        (killed, "its Java has ended"),
    ],
)
def test_what_spark_fails_of_is_one_line_and_what_to_do(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    fails: Callable[["SparkSession"], None], said: str
) -> None:  # fmt: skip
    logged: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Logger, "handle", lambda _, record: logged.append(record))
    monkeypatch.setattr(run, "audit", lambda spark, *_: fails(spark))
    assert cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-2].startswith("sapwood: Spark failed: ")
    assert said in told[-2]
    assert "--spark" in told[-1]
    assert not any("\tat org." in line for line in told)
    assert not logged, "the stack of Java, by Spark's Python"


def test_why_spark_does_not_start_is_said_in_java_s_words(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where `spark.driver.memory` is less than it takes."""
    monkeypatch.setattr(type(spark).Builder, "getOrCreate", lambda _: thrown(spark))
    with pytest.raises(SetUpError, match=r"^Spark does not start: java\.lang\.UnsatisfiedLinkError"):
        session.start()


def test_an_interrupt_that_breaks_the_connection_to_spark_is_one(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            try:
                raise ConnectionResetError
            except OSError as error:
                raise Py4JNetworkError("Error while receiving") from error

    monkeypatch.setattr(run, "audit", interrupted)
    assert cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")]) == 130


def test_an_interrupt_ends_a_job_that_a_cluster_never_begins(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's Python lets no interrupt through before the job has ended, and then it raises that alone."""
    broken_off = threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            assert broken_off.wait(20), "the job goes on"
            raise Py4JError("the job was cancelled") from None

    monkeypatch.setattr(session, "break_off", broken_off.set)
    monkeypatch.setattr(run, "audit", interrupted)
    try:
        assert cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")]) == 130
    finally:
        logging.disable(logging.NOTSET)
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_the_middle_of_a_query_is_one(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*_: object) -> None:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        query(
            "select error('it was not heard') from (select count(*) from range(500000000) where random() > 2)"
        )

    monkeypatch.setattr(run, "audit", interrupted)
    try:
        assert cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")]) == 130
    finally:
        logging.disable(logging.NOTSET)
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_told_to_a_query_until_it_hears() -> None:
    """One that has not begun, say, hears the first ones not."""
    told: list[int] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Deaf:
        def interrupt(self) -> None:
            told.append(1)

    def work() -> Any:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        while len(told) < 3:
            time.sleep(0.01)
        raise InterruptException

    try:
        with pytest.raises(KeyboardInterrupt):
            queries._heard(Deaf(), work)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(told) >= 3


def test_an_interrupt_ends_an_audit_without_a_word_of_spark_s_own(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the audit went on")

    broken_off = threading.Event()
    monkeypatch.setattr(session, "break_off", broken_off.set)
    monkeypatch.setattr(run, "audit", interrupted)
    try:
        assert cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")]) == 130
        assert logging.root.manager.disable == logging.CRITICAL, "nor a stack of what fails then"
        assert broken_off.wait(20), "nor one of Java's"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        logging.disable(logging.NOTSET)
        signal.signal(signal.SIGINT, before)
    alone = [thread for thread in threading.enumerate() if thread.name == "prepare" and thread.daemon]
    assert not alone, "a thread in compiled code aborts a process that does not wait for it"


def test_spark_takes_no_signal_in_the_place_of_a_handler_that_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def takes(**_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    monkeypatch.setattr("pyspark.SparkContext", takes)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        session._begin(None, None)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("error", [ZeroDivisionError(), PermissionError()])
def test_an_error_that_is_not_sparks_is_raised(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failed(*_: object) -> None:
        raise error

    monkeypatch.setattr(run, "audit", failed)
    with pytest.raises(type(error)):
        cli.main([str(DATA / "demo"), "--deployment", str(DATA / "stores.csv")])


def test_a_plan_loads_nothing_of_spark(tmp_path: Path) -> None:
    """In a Python of its own: other tests have loaded it here."""
    command = ["--deployment", str(DATA / "stores.csv"), "--out", str(tmp_path), "--consumers", "leaf:own:25"]
    program = "import sys; from audit.cli import main; print(main(sys.argv[1:]), 'pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr[-2000:]


def test_a_role_that_no_site_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--deployment", str(DATA / "stores.csv"), "--out", str(tmp_path), "--consumers", "shop:own:25"]
    assert cli.main(command) == 2
    assert "no site has the role 'shop': expected one of branch, leaf, root" in capsys.readouterr().err


JUDGED = {
    **dict.fromkeys(
        (
            "not_judged",
            "lines_lost",
            "files_cut",
            "rows_missing",
            "nodes_with_two_logs",
            "rows_of_other_trees",
        ),
        0,
    ),
    "judged": 5,
    "nodes_up_without_log": 0,
    "share_of_nodes": 1.0,
    "whole": True,
}


@pytest.mark.parametrize(
    ("spilled", "judged", "code", "said"),
    [
        (0, {}, 0, ""),
        (1, {}, 1, ""),
        (0, {"not_judged": 3, "whole": False}, 1, "5 advisories of consumers judged, 3 could not be"),
        (0, {"lines_lost": 1, "whole": False}, 1, "1 line lost"),
    ],
)
def test_strict_is_content_only_with_what_was_judged(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    spilled: int, judged: dict[str, object], code: int, said: str
) -> None:  # fmt: skip
    summary = {
        "plan": False,
        "rows": 9,
        "files": 1,
        "verdicts": {"spilled": spilled},
        "judged": JUDGED | judged,
    }
    monkeypatch.setattr(run, "audit", lambda *_: summary)
    command = [str(DATA / "demo"), "--deployment", str(DATA / "stores.csv"), "--json"]
    assert cli.main(command) == 0
    assert cli.main([*command, "--strict"]) == code
    assert said in capsys.readouterr().err


def test_the_packaged_file_alone_audits_the_demo_under_spark_submit(tmp_path: Path) -> None:
    """In a folder of its own, with a Python that does not see this project's folder."""
    import pyspark

    from audit.java import java_home

    file = package.write(tmp_path / "sapwood_audit.py")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
    options = ["--master", "local[2]", "--driver-memory", "512m"]
    quick = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize={session.CODE_CACHE}"
    quick += f" -XX:MetaspaceSize={session.METASPACE} -XX:+UseSerialGC {classes()}"
    options += ["--driver-java-options", quick, "--driver-class-path", session._first_jars()]
    options += [word for setting in settings for word in ("--conf", setting)]
    what = [
        str(DATA / "demo"),
        "--deployment",
        str(DATA / "stores.csv"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1",
                   "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": "", "PYTHONSAFEPATH": "1"}  # fmt: skip
    command = [str(submit), *options, str(file), *what]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert (summary["advisories"], summary["verdicts"]["spilled"]) == (58, 0)
    assert (tmp_path / "out" / "report.html").exists()


def test_help_is_shown_where_the_terminal_lacks_a_character_of_it() -> None:
    words, environment = [sys.executable, "-m", "audit", "--help"], os.environ | {"PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=180, env=environment)
    assert (ran.returncode, "such as 2026-03-14" in ran.stdout) == (0, True), ran.stderr
