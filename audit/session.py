"""One Spark session, fitted to the machine and to the size of the data.

Under spark-submit the session that is there is taken as it is, but for time zone and file options, which the
audit's results depend on. Else a local session is started: its memory follows the data, between 768 MiB and
half of the machine; below 1 GiB of data it starts fast and small instead of running long and well. Data are
counted as lines of JSON, of which 1 GiB is about four million.

Caller's duty: start it once a process, and `stop` it.

Wrinkle: `pyarrow` is loaded late, while Java starts.
"""

import math
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from audit.errors import SetUpError
from audit.java import class_archive, java_home, only_read

if TYPE_CHECKING:
    from pyarrow import Table
    from pyspark.sql import DataFrame, SparkSession

MIB: Final = 1024 * 1024
SMALL: Final = 1024 * MIB
TINY: Final = 16 * MIB
"""Below this, compiling a query takes longer than running it: it is interpreted instead."""
CODE_CACHE: Final = "256m"
"""For compiled code. Wrinkle: with the quick compiler alone Java has 48 MiB, which one audit fills; then it
compiles nothing more, and everything after is several times slower."""
_SOON: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that has little to do, and for the one that only puts Spark's command line together."""
METASPACE: Final = "256m"
"""For classes, before Java looks through all its memory for some that it may forget; none can be."""
LISTED_HERE: Final = "10000"
"""Files up to which the driver lists them; of more than 32 Spark would make a job, with a task a file."""
LEAST_MEMORY: Final = 768 * MIB
A_PARTITION: Final = 256 * MIB
MOST_PARTITIONS: Final = 2000
_USUAL: Final = (
    "scala-library",
    "spark-catalyst",
    "spark-sql",
    "spark-core",
    "spark-common-utils",
    "spark-unsafe",
    "hadoop-client-api",
    "spark-network-common",
    "spark-kvstore",
    "json4s",
    "parquet",
)
_LOCAL_CLUSTER: Final = re.compile(
    r"local-cluster\[\s*(?P<workers>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*(?P<memory>\d+)\s*\]"
)
"""Wrinkle: an executor asks for 1 GiB whatever its worker has, and waits for ever if that is less."""
CONNECTING_S: Final = 10.0
"""Seconds for the way to a cluster."""
_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Where Spark's Python writes each error of a query, with the stack of Java, before it raises it."""
_GONE: Final = "its Java has ended"
_RESULTS_DEPEND_ON: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.openCostInBytes": str(128 * 1024),
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.maxPlanStringLength": "10000",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Corrupt files are read as far as they go; `reading` finds and reports every one of them. What travels
between tasks is packed: 16 MiB of it are about a million rows, as many as one task's memory holds well. It
does not depend on the order in which it is read, so that no checksum is needed to tell. Where each call of
Spark stands in our files it is not told: that is three calls more for each."""

_SMALL_QUERIES: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.shuffle.partitions": "1",
}
"""To compile a query takes longer than to run a small one. Each piece that is looked at before the next is
planned, and each table that is sent around, is a job of its own; in one piece a query is one job."""


class Starting:
    """A session that starts while this process does other things: Java needs most of that time.

    Use as a context: where something fails before `session` was called, Java is ended again.
    """

    def __init__(self, master: str = "", data_bytes: int = 0, options: dict[str, str] | None = None) -> None:
        """Start Java, or find the one of spark-submit.

        `master`: as Spark spells it; '' = all cores of this machine. `data_bytes`: how much is to be read.
        `options`: Spark's own, by name; they win. Raises `SetUpError` where Spark or Java is missing.
        """
        try:
            from pyspark import SparkContext
        except ImportError:
            raise SetUpError("the audit needs Spark: pip install 'sapwood-node[spark]'") from None
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        self._settings = _settings_for(master, data_bytes, options or {}, submitted=submitted)
        self._java: Future[Any] | None = None
        self._scratch = ""
        if not submitted and SparkContext._gateway is None:  # Spark keeps its Java when a session stops
            _refuse_unreachable(self._settings.get("spark.master", ""))
            self._scratch = tempfile.mkdtemp(prefix="sapwood-spark-")
            pool = ThreadPoolExecutor(1, "java")
            self._java = pool.submit(_launch, self._settings, self._scratch)
            pool.shutdown(wait=False)

    def __repr__(self) -> str:
        return f"<Starting java={self._java}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wrinkle: it is killed, so that it leaves no archive of the few classes that it has loaded; its
        temporary files it leaves to us."""
        if self._java is None:
            return
        with suppress(Exception):  # it did not even start
            process = self._java.result().proc
            process.kill()
            process.communicate()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def session(self) -> "SparkSession":
        """Wait for Java, and start the session. Raises `SetUpError`."""
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession

        conf = _conf(self._settings)
        try:
            if self._java:
                _begin(conf, java := self._java.result())
                # By Java, as all in it: after this process.
                java.jvm.java.io.File(self._scratch).deleteOnExit()
            session = SparkSession.builder.config(conf=conf).getOrCreate()
        except Exception as error:
            raise SetUpError(f"Spark does not start: {reason(error)}") from error
        self._java = None
        for name in _LOGS:
            PySparkLogger.getLogger(name).disabled = True
        return session


def _begin(conf: Any, java: Any) -> None:
    """Wrinkle: Spark puts a handler of Ctrl-C into the place of ours, also where nobody listened to it, which
    asks Java in the middle of another call."""
    from pyspark import SparkContext

    before = signal.getsignal(signal.SIGINT)
    SparkContext(conf=conf, gateway=java)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def start(master: str = "", data_bytes: int = 0, options: dict[str, str] | None = None) -> "SparkSession":
    """Start a session, and wait for it: see `Starting`."""
    with Starting(master, data_bytes, options) as starting:
        return starting.session()


def _settings_for(
    master: str, data_bytes: int, options: dict[str, str], *, submitted: bool
) -> dict[str, str]:
    settings = dict(_RESULTS_DEPEND_ON)
    settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions(data_bytes, _cores(master)))
    if data_bytes < TINY:
        settings |= _SMALL_QUERIES | {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    if not submitted:
        _prepare_environment()
        settings |= _local_settings(master or "local[*]", data_bytes)
    settings |= options
    if master and not submitted:
        settings["spark.master"] = master
    return settings


def _launch(settings: dict[str, str], scratch: str) -> Any:
    """Start Spark's JVM out of reach of the signals that the group of this process gets: ending it is ours.
    It ends with this process too, whose pipe it reads. `scratch`: the folder of its temporary files.
    """
    from pyspark.java_gateway import launch_gateway

    of_java = "spark.driver.extraJavaOptions"
    there = {of_java: f'"-Djava.io.tmpdir={scratch}" {settings.get(of_java, "")}'}
    conf = _conf(settings | there)
    return launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]


def _conf(settings: dict[str, str]) -> Any:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAppName("sapwood audit").setAll(list(settings.items()))


def _refuse_unreachable(master: str) -> None:
    """Raises `SetUpError` where nobody listens at a cluster's address: Spark would try for a minute, and not
    say so."""
    scheme, _, places = master.partition("://")
    if scheme != "spark":
        return
    why = ""
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECTING_S).close()
        except (OSError, OverflowError, UnicodeError) as error:  # no port, or no name, that there can be
            why = why or f"{place}: {getattr(error, 'strerror', None) or error}"
        else:
            return
    raise SetUpError(f"--master {master}: nobody answers: {why}")


def end(spark: "SparkSession") -> None:
    """Stop a session that called Python back, as streaming does; no other can be started after it.

    Wrinkle: a thread that waits for Java at the end of Python keeps objects of DuckDB, which then complains.
    """
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()


def break_off() -> None:
    """End the session that there is, and all that it works on. Java says nothing more: what is broken off
    fails, and it writes the stacks of that.

    Wrinkle: for a thread of its own. Spark's Python that is interrupted while it waits for a result waits for
    the end of that job, which a cluster that has nothing free never begins; and its line to Java is in the
    middle of a call.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):  # Java may be gone already
            context.setLogLevel("OFF")
            context._jsc.stop()


def fetch(frame: "DataFrame") -> "Table":
    """Work a frame out, and bring it here; its times are in UTC, and each column may be null."""
    import pyarrow

    table = frame.toArrow()
    return table.cast(pyarrow.schema([field.with_nullable(True) for field in table.schema]))


def row_by_row(spark: "SparkSession") -> AbstractContextManager[None]:
    """While it lasts, Parquet is read row by row. Wrinkle: many rows at once are read several times as fast,
    but some damage in them ends the whole query."""
    return _settings(spark, {"spark.sql.parquet.enableVectorizedReader": "false"})


@contextmanager
def _settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, old or "")


def shuffle_partitions(data_bytes: int, cores: int) -> int:
    """How many pieces a shuffle has: a multiple of the cores, at least one piece for each 256 MiB of data."""
    pieces = math.ceil(data_bytes / A_PARTITION)
    return min(MOST_PARTITIONS, max(cores, math.ceil(pieces / cores) * cores))


def driver_memory(data_bytes: int, machine_bytes: int) -> int:
    """MiB for a local session: 768 and half of the data, at most half of the machine."""
    wanted = LEAST_MEMORY + data_bytes // 2
    return max(LEAST_MEMORY, min(wanted, machine_bytes // 2)) // MIB


def _cores(master: str) -> int:
    own = os.cpu_count() or 1
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster["workers"]) * int(cluster["cores"])
    given = master[master.find("[") + 1 : -1] if master.startswith("local[") else ""
    return int(given) if given.isdigit() else own


def _local_settings(master: str, data_bytes: int) -> dict[str, str]:
    memory = driver_memory(data_bytes, _machine_bytes())
    speed = _SOON if data_bytes < SMALL else "-XX:+UseParallelGC"
    speed += f" -XX:ReservedCodeCacheSize={CODE_CACHE} -XX:MetaspaceSize={METASPACE}"
    archive = class_archive(Path(os.environ["JAVA_HOME"]), installed(), time.time())
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": LISTED_HERE,
        "spark.driver.memory": f"{memory}m",
        "spark.driver.extraClassPath": _first_jars(),
        "spark.driver.extraJavaOptions": f"{speed} {archive} -Dlog4j2.configurationFile={_quiet_logging()}",
    }
    if master.startswith("local"):
        settings["spark.master"] = master
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        settings["spark.executor.memory"] = f"{cluster['memory']}m"
        settings |= _executors(speed, archive)
    if data_bytes < SMALL:
        settings["spark.default.parallelism"] = str(_cores(master))
    return settings


def _executors(options: str, archive: str) -> dict[str, str]:
    """Java's options for executors on this machine. They read the driver's archive of classes and write none.

    Wrinkle: Java reads one only where its archives of classes come in the order in which they came to the
    Java that wrote it.
    """
    return {
        "spark.executor.extraClassPath": _first_jars(),
        "spark.executor.extraJavaOptions": f"{options} {only_read(archive)}",
    }


def installed() -> str:
    """Which Spark this is. Wrinkle: Java reads an archive only with the very files that it was written of, by
    place and time, and says nothing; so another environment's Spark of the same version is another."""
    import pyspark

    folder = Path(pyspark.__file__).parent
    times = [path.stat().st_mtime_ns for path in sorted((folder / "jars").glob("scala-library*.jar"))]
    return f"pyspark {pyspark.__version__} {folder} {times}"


def _first_jars() -> str:
    """Those of Spark's archives in which most classes are.

    Wrinkle: Java looks for each class in one archive after the other, of some three hundred. To name these
    first is a tenth of what a small audit costs.
    """
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    return os.pathsep.join(str(path) for name in _USUAL for path in sorted(folder.glob(f"{name}*.jar")))


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _prepare_environment() -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SOON)


def _quiet_logging() -> str:
    """The URL of the logging configuration; from a zip it is laid into a temporary file first."""
    resource = files("audit") / "log4j2.properties"
    if isinstance(resource, Path):
        return resource.resolve().as_uri()
    with tempfile.NamedTemporaryFile("wb", suffix=".properties", delete=False) as file:
        file.write(resource.read_bytes())
    return Path(file.name).as_uri()


def reason(error: Exception) -> str:
    """Why something failed that Spark did, in a line."""
    why = failure(error)
    return why if isinstance(why, str) else _first_line(error)


def failure(error: BaseException) -> "str | KeyboardInterrupt | None":
    """Why Spark failed, in a line, or the interrupt that made it fail; nothing if the error is not Spark's.

    Wrinkle: after a failure, or an interrupt in the middle of a call, to stop the session fails too, for want
    of a connection. What came first counts.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    why: str | None = None
    at: BaseException | None = error
    while isinstance(at, Py4JError | PySparkException | OSError):
        if isinstance(at, ConnectionRefusedError | ConnectionResetError):
            why = why or _GONE
        elif not isinstance(at, OSError):
            why = _of_java(at)
        at = at.__cause__ if at.__suppress_context__ else at.__context__
    return at if isinstance(at, KeyboardInterrupt) else why


def _of_java(error: Exception) -> str:
    """The first line of what Java threw. Wrinkle: Java is asked for it, which may be gone by now."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JNetworkError):
        return _GONE
    try:
        return _said(error.java_exception) if isinstance(error, Py4JJavaError) else _first_line(error)
    except (Py4JError, OSError, AssertionError):
        return _GONE


def _said(thrown: Any) -> str:
    """Wrinkle: where that line ends in a colon, as of what Spark waited for, the cause says why."""
    while (line := _first_line(thrown.toString())).endswith(":") and (cause := thrown.getCause()) is not None:
        thrown = cause
    return line


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
