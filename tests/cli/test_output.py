"""How commands speak."""

import json
from threading import Event, active_count

import pytest

from broker.cli import output


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"text": "zwei\nZeilen ä"})
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert json.loads(text) == {"text": "zwei\nZeilen ä"}


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with output.patience("counting"):
        pass
    assert capsys.readouterr().err == ""


def test_slow_work_says_what_it_is_doing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Event()

    def note(text: str) -> None:
        print(text)
        said.set()

    monkeypatch.setattr(output, "PATIENCE", 0.0)
    monkeypatch.setattr(output, "note", note)
    with output.patience("counting"):
        assert said.wait(120)
    assert capsys.readouterr().out == "counting …\n"


def test_a_notice_ends_with_work_that_fails() -> None:
    before = active_count()
    with pytest.raises(ZeroDivisionError), output.patience("dividing"):
        _ = 1 / 0
    assert active_count() == before


def test_columns_are_right_aligned_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    made = output.table("Name", ">count")
    made.add_row("hq", "7")
    output.print_table(made)
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if "hq" in line)
    heading = next(line for line in text.splitlines() if "Name" in line)
    assert line.index("7") == heading.index("count") + len("count") - 1


def test_what_applications_call_things_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    made = output.table("Name")
    for name in ("[/red]a", "[bold]b", ":smile:", "c\x9b31m\x1b[31m\u202e"):
        made.add_row(name)
    output.print_table(made)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert {"[/red]a", "[bold]b", ":smile:", "c·31m·[31m·"} <= set(lines)


def test_a_table_wider_than_there_is_room_loses_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 80 columns the names of queues had five letters, while columns without a word kept theirs."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    headings = ("Queue", ">messages", ">bytes", ">oldest", ">readers", ">in/s", ">out/s", ">latency", "Why")
    made = output.table(*headings)
    made.add_row("queue:york/prices", "7", "81.2 KiB", "17m 3s", "0", "0.0", "0.0", "", "takes nothing more")
    output.print_table(made)
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "york" in line).split()
    assert row == ["queue:york/prices", "7", "81.2", "KiB", "17m", "3s", "0", "0.0", "0.0", "takes"]
    assert " ".join(lines).split()[-4:] == ["0.0", "takes", "nothing", "more"]
    assert "latency" not in lines[1]
    made = output.table("Alarm", "Raised by")
    made.add_row("disk-low", "disk_free below 1GiB for 5m, and " * 4)
    output.print_table(made)
    assert len(capsys.readouterr().out.splitlines()[0]) == 80


def test_a_name_that_is_longer_than_a_line_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    made = output.table("Queue", ">messages")
    made.add_row("q" * 255, "7")
    output.print_table(made)
    assert "q" * 255 in capsys.readouterr().out
