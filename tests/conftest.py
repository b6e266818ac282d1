"""What holds for all tests: no setting of the person who runs them leaks in, and hypothesis has no deadline.

Time is never asserted: on a machine that does other things too, a slow example is no defect. Real brokers are
started when the first test asks for them, once for each test process. `environments` says which tests are run
together by `--environment`.
"""

import contextlib
import fcntl
import gc
import inspect
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from broker.cli.demo import plan

sys.path[:0] = [str(Path(__file__).parent / each) for each in (".", "brokers", "javascript", "ocaml")]

from environments import REST, TABLE, TESTS, environment_of, turn_of  # noqa: E402 - found by the line above

if TYPE_CHECKING:
    from bind_server import BindServer
    from mosquitto_server import MosquittoServer
    from pyspark.sql import SparkSession
    from rabbitmq_server import RabbitServer

settings.register_profile(
    "sapwood", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("sapwood"), derandomize=False, max_examples=2000)
settings.load_profile("sapwood")


PURE = ("treeconnector", "broker.core")
BROKERS = {"rabbitmq", "vhost", "mosquitto", "broker", "bind", "domain"}


def pytest_configure(config: pytest.Config) -> None:
    """Each test process has ports of its own: one is free for a while before somebody listens there.

    None reads the machine's list of authorities, nor does any program that a test starts: none needs it.

    Where no compiled modules are to lie beside the sources, those of this process, and of nodes and programs
    that tests start, lie in pytest's own folder: to compile all is half of what their start takes.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below `nohup`, tests' programs too
    gc.set_threshold(50_000, 20, 100)  # as seldom as in a node; to load the tests makes much that stays
    os.environ["SSL_CERT_FILE"] = os.devnull  # a tenth of what a program takes that loads aiohttp
    if sys.dont_write_bytecode:
        folder = str(config.rootpath / ".pytest_cache" / "compiled")
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = folder
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    plan._PORTS = plan._PORTS[process::processes]
    if processes > 1:
        with contextlib.suppress(AttributeError):
            _compile_share(config, process, processes)


def _compile_share(config: pytest.Config, process: int, processes: int) -> None:
    """Compile each n-th test file: all processes import all of them, and each would compile them all.

    pytest rewrites their assertions, which is three quarters of the first collection. Wrinkle: it has no
    public name for that. If it changes these names, each process compiles all files again; no test changes.
    """
    asked = [(config.invocation_params.dir / each.split("::")[0]).resolve() for each in config.args]
    files = {file for place in asked if place.is_dir() for file in place.rglob("test_*.py")}
    for file in sorted(files)[process::processes]:
        if pytest_ignore_collect(file, config):
            continue
        pyc = rewrite.get_cache_dir(file) / (file.stem + rewrite.PYC_TAIL)
        if rewrite.try_makedirs(pyc.parent) and rewrite._read_pyc(file, pyc) is None:
            source, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, pyc)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """The collector never again goes over the modules of the tests. It does not even once: of all that was
    loaded one object in a hundred is garbage, and to look for these took each process a third of a second."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At the end it sees all again: libraries tell of what they find unfreed."""
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--environment", choices=list(TABLE), help="only that row of environments.py")
    parser.addoption("--compiled", action="store_true", help="the pure houses are to be compiled")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other environments: their modules are not even imported."""
    chosen = config.getoption("--environment")
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if chosen and is_test and environment_of(collection_path) != chosen else None


class StartedOnce(LoadFileScheduling):
    """One process runs a file; one runs all of Spark, and one all of the browser: each starts once."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        environment = environment_of(TESTS.parent / file)
        return environment if environment in ("spark", "browser") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    whole = config.getoption("dist") == "loadfile" and not config.getoption("--environment")
    return StartedOnce(config, log) if whole else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first (see `TABLE`), and no test that starts a broker where the table does not say so."""
    items.sort(key=lambda item: turn_of(item.path))
    for item in items:
        if environment_of(item.path) == "spark":  # the first waits for the session, and each for Java
            item.add_marker(pytest.mark.timeout(900))
    astray = [
        item.nodeid
        for item in items
        if BROKERS & set(getattr(item, "fixturenames", ())) and environment_of(item.path) == REST
    ]
    if astray:
        raise pytest.UsageError(f"these start a broker: name their files in environments.py: {astray}")


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Replaces nothing in a compiled module, which uses its own: such a test is for the plain wheel. A method
    of an object that has only slots is replaced in its class.
    """
    replace = monkeypatch.setattr

    def setattr(target: object, *arguments: Any, **options: Any) -> None:
        module = _module_of(target)
        if module.startswith(PURE) and str(sys.modules[module].__file__).endswith(tuple(EXTENSION_SUFFIXES)):
            pytest.skip(f"{module} is compiled: nothing in it can be replaced")
        if not isinstance(target, str) and not hasattr(target, "__dict__"):
            name, method = arguments
            target, arguments = type(target), (name, staticmethod(method))
        replace(target, *arguments, **options)

    monkeypatch.setattr = setattr  # type: ignore[method-assign]
    return monkeypatch


def _module_of(target: object) -> str:
    """The module that a target of `setattr` is in: itself, or where its class is, or named by a text."""
    name = (
        target if isinstance(target, str) else getattr(target, "__module__", getattr(target, "__name__", ""))
    )
    while name not in sys.modules and name:
        name = name.rpartition(".")[0]
    return str(name)


@pytest.fixture(autouse=True)
def _no_server_in_unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of `unit` starts no process and opens no line."""
    if environment_of(request.path) != "unit":
        return

    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("a test of `unit` starts no process and opens no line: see environments.py")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    for name in ("bind", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=False)


@pytest.fixture(autouse=True)
def _its_own_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A connection that an asynchronous test leaves open is told of that test. The collector may find it many
    tests later, in one that makes much.
    """
    yield
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        gc.collect(1)


@pytest.fixture(autouse=True)
def _no_signal_held_back() -> Iterator[None]:
    """A program that a later test starts would inherit that, and wait for it in vain."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    after = signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert after == before, f"the test holds back {after - before}: restore the mask that was"


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget SAPWOOD_… variables and proxies."""
    for name in list(os.environ):
        if name.startswith("SAPWOOD_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[RabbitServer]":
    """A real RabbitMQ with management, event exchange and MQTT. A test that kills it starts it again."""
    from rabbitmq_server import RabbitServer

    server = RabbitServer(tmp_path_factory.mktemp("rabbitmq") / "server")
    try:
        server.start()
        yield server
    finally:
        server.stop()


_vhosts = itertools.count(1)


@pytest.fixture
def vhost(rabbitmq: "RabbitServer") -> Iterator[str]:
    """A virtual host of the test's own at `rabbitmq`."""
    rabbitmq.start()
    name = f"test{next(_vhosts)}"
    rabbitmq.add_vhost(name)
    yield name
    rabbitmq.start()
    rabbitmq.delete_vhost(name)


@pytest.fixture(scope="session")
def bind(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[BindServer]":
    """A real BIND with a zone that may be changed. A test that kills it starts it again."""
    from bind_server import BindServer

    server = BindServer(tmp_path_factory.mktemp("bind") / "server")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def ocaml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of dune with the library for OCaml and programs that use it, built once."""
    from workspace import build

    base = tmp_path_factory.getbasetemp()
    return build(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def kept_classes(pytestconfig: pytest.Config) -> str:
    """The `XDG_CACHE_HOME` below which Java finds the archive of classes that an audit leaves, as it does for
    each audit of a user's but the first: that takes two thirds of the CPU. Where none is there yet an audit
    leaves one in pytest's own folder, once.
    """
    from audit.java import SETTLED_S, class_archive, java_home
    from audit.session import installed

    def to_be_written() -> bool:
        return "ArchiveClassesAtExit" in class_archive(java_home(), installed(), time.time())

    if not to_be_written():
        return os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = pytestconfig.rootpath / ".pytest_cache" / "java"
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (folder / "lock").open("w") as lock:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        fcntl.flock(lock, fcntl.LOCK_EX)
        if to_be_written():
            data = TESTS / "audit" / "data"
            command = [sys.executable, "-m", "audit", data / "demo", "--deployment", data / "stores.csv"]
            # Java has a share in the pipes: they end when it has written all.
            subprocess.run([*command, "--out", folder / "out"], capture_output=True, check=True)
            for archive in folder.rglob("*.jsa"):
                os.utime(archive, (time.time(), time.time() - SETTLED_S - 1))
    return str(folder)


@pytest.fixture(scope="session")
def spark(kept_classes: str) -> "Iterator[SparkSession]":
    """One session for all tests that use Spark: to start one costs seconds and hundreds of MiB.

    Its rows come to Python in the zone of this process; the tests reckon in UTC.
    """
    from audit import session

    os.environ["TZ"] = "UTC"
    os.environ["XDG_CACHE_HOME"] = kept_classes
    time.tzset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the collector
        started = session.start("local[2]", 0, {"spark.sql.shuffle.partitions": "2"})
        yield started
        started.stop()


_domains = itertools.count(1)


@pytest.fixture
def domain(bind: "BindServer") -> str:
    """A domain of the test's own at `bind`, without records."""
    bind.start()
    return f"region{next(_domains)}.example.test"


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[MosquittoServer]":
    """A real Mosquitto at which anybody may do anything. A test that kills it starts it again."""
    from mosquitto_server import MosquittoServer

    server = MosquittoServer(tmp_path_factory.mktemp("mosquitto") / "server")
    try:
        server.start()
        yield server
    finally:
        server.stop()
