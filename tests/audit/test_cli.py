"""The command line: what is wrong is said before Spark starts; the packaged file runs by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from audit import cli, package, run, session

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
        (["log", "--deployment", "s", "--limit", "routes=many"], "expected FIGURE=NUMBER"),
        (["log", "--deployment", "s", "--spark", "x"], "expected NAME=VALUE"),
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


def test_help_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "--deployment" in capsys.readouterr().out


def test_another_brokers_log_is_imported_before_it_is_audited(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the audit itself is left out here: what it would read is looked at."""

    class Lent:
        """The tests' session, which nobody stops."""

        def __getattr__(self, name: str) -> object:
            return getattr(spark, name)

        def stop(self) -> None:
            pass

    asked: list[run.Request] = []

    def audit(_: object, request: run.Request) -> dict[str, object]:
        asked.append(request)
        return {"verdicts": {"spilled": 0}}

    sizes: list[int] = []
    monkeypatch.setattr(session, "start", lambda _master, size, _settings: sizes.append(size) or Lent())
    monkeypatch.setattr(run, "audit", audit)
    log = ["--from", "nats", str(DATA / "leafz.jsonl"), "--deployment", str(DATA / "stores.csv"), "--json"]
    assert cli.main([*log, "--out", str(tmp_path)]) == 0, capsys.readouterr().err
    wanted = (DATA / "leafz.jsonl").stat().st_size + cli.SITES_WEIGHT * (DATA / "stores.csv").stat().st_size
    assert sizes == [wanted], "the session is fit to logs and table of sites"
    (imported,) = asked[0].logs
    assert imported == str(tmp_path / "imported")
    assert spark.read.parquet(imported).where("event = 'advisory'").count() > 0


def test_the_packaged_file_alone_audits_the_demo_under_spark_submit(tmp_path: Path) -> None:
    """In a folder of its own, with a Python that does not see this project's folder."""
    import pyspark

    from audit.java import java_home

    file = package.write(tmp_path / "sapwood_audit.py")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
    options = ["--master", "local[2]", "--driver-memory", "512m"]
    options += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
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
