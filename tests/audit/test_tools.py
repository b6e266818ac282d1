"""The examples beside a history: the notebook and the Grafana dashboard ask it for what it has; the timer of
systemd adds to it."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from test_period import MIDNIGHT, log

from audit.history import Day
from audit.options import parser, period
from audit.run import Request, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "audit"


@pytest.fixture(scope="module")
def history(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of a small tree, by real audits."""
    folder = tmp_path_factory.mktemp("history")
    log(folder)
    given = [str(folder / f"{node}.jsonl") for node in ("hq", "york")]
    for day, when in ((14, (None, MIDNIGHT)), (15, (MIDNIGHT, None))):
        out = folder / f"out-{day}"
        found = audit(spark, Request(given, str(folder / "sites.csv"), out, period=when, named=True))
        Day(str(folder / "audits"), date(2026, 3, day)).append(out / "tables", found)
    return folder / "audits"


def test_each_panel_of_the_dashboard_finds_its_columns(history: Path) -> None:
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    found: dict[str, list[tuple[Any, ...]]] = {}
    with duckdb.connect() as connection:
        connection.execute((history / "views.duckdb.sql").read_text())
        for panel in dashboard["panels"]:
            (target,) = panel["targets"]
            asked = target["rawSql"].replace("${__from:date:YYYY-MM-DD}", "2026-03-01")
            asked = asked.replace("${__to:date:YYYY-MM-DD}", "2026-03-31")
            assert "$" not in asked
            answer = connection.sql(asked)
            found[panel["title"]] = answer.fetchall()
            if panel["type"] == "timeseries":
                assert answer.columns == ["time", "metric", "value"]
    assert found["Advisories"] == [(3,)]
    assert found["Days that are not whole"] == [(1,)]
    assert [row[2] for row in found["Advisories each day"]] == [2, 1]
    assert found["Nodes that took most"][0][:3] == ("acme", "hq", 3)


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In plain Python: no cell has magic."""
    monkeypatch.setenv("SAPWOOD_HISTORY", str(history))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads((EXAMPLES / "history.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in cells if re.search(r"^[%!]", cell, re.MULTILINE)]
    known: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "history.ipynb", "exec"), known)
    assert list(known["days"]["advisories"]) == [2, 1]
    assert list(known["days"]["whole"]) == [False, True]
    sys.modules["matplotlib.pyplot"].close("all")


def unit(name: str) -> configparser.ConfigParser:
    """A unit of systemd; one with a key twice is none of ours."""
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string((EXAMPLES / name).read_text())
    return found


def test_the_timer_starts_an_audit_that_may_write_where_it_has_to() -> None:
    timer, service = unit("sapwood-audit.timer"), unit("sapwood-audit.service")
    assert "Unit" not in timer["Timer"], "without it, the service of the same name"
    assert re.fullmatch(r"\*-\*-\* 0\d:\d\d:00 UTC", timer["Timer"]["OnCalendar"]), "when yesterday is over"
    state = Path("/var/lib", service["Service"]["StateDirectory"])
    words = shlex.split(service["Service"]["ExecStart"].replace("\\\n", " "))
    assert words[:3] == ["/usr/bin/env", "sapwood", "audit"]
    options = parser().parse_args(words[3:])
    since, until = period(options)
    assert (since is not None, until is not None) == (True, True)
    written = [options.out, Path(options.history), Path(service["Service"]["WorkingDirectory"])]
    written.append(Path(service["Service"]["Environment"].removeprefix("HOME=")))
    assert [path for path in written if not path.is_relative_to(state)] == [], "all else is read-only"


def test_systemd_finds_nothing_wrong_with_the_timer() -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("there is no systemd here")
    names = [str(EXAMPLES / f"sapwood-audit.{kind}") for kind in ("service", "timer")]
    done = subprocess.run([analyze, "verify", *names], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
