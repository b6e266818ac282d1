"""Which files are taken for logs."""

from pathlib import Path

from audit.alerts import Alerts
from audit.feeder import Feeder
from audit.listing import list_local
from audit.output import Output

LINE = '{"event":"node","at":"2026-03-14T08:00:00Z","node":"york","op":"start","schema":1}\n'


def test_what_an_audit_wrote_among_the_logs_is_no_log(tmp_path: Path) -> None:
    log = tmp_path / "york.advisories.jsonl"
    log.write_text(LINE)
    tables = Output(tmp_path / "audit").folder / "tables" / "spilled"
    tables.mkdir()
    (tables / "part-00000.parquet").write_bytes(b"PAR1")
    feeder = Feeder(tmp_path, tmp_path / "watch" / "follow")
    assert feeder.feed() == len(LINE)
    Alerts(tmp_path / "watch" / "alerts").take("rows", 0, [{"id": 1, "alert": "unreadable"}])
    assert feeder.feed() == 0, "neither its own pieces nor its own alerts"
    listing = list_local([str(tmp_path)])
    assert [Path(file.path.removeprefix("file://")) for file in listing.files] == [log]
    assert len(listing.ignored) == 3, "but it is told"
