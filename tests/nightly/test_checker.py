"""The checker of the kill rounds finds what is lost, doubled, late or from nowhere in journals."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from checker import Checker, Flow, Verdict

FLOWS = {"sales": Flow(("hq", "hq-2")), "offers": Flow(("york", "bath"), shared=False)}
WELL = {
    "till": ["begun 1", "sent sales 0 2 10", "confirmed sales 0 2 11"],
    "desk": ["begun 1", "sent offers 0 0 10", "confirmed offers 0 0 11"],
    "hq": ["begun 1", "got sales 0 12 0", "got sales 2 12 0"],
    "hq-2": ["begun 1", "got sales 1 12 0"],
    "york": ["begun 1", "got offers 0 12 0"],
    "bath": ["begun 1", "got offers 0 13 0"],
    "killer": [],
}


def verdict(folder: Path, **further: list[str]) -> Verdict:
    """Of the journals above, with more lines in some."""
    for name, lines in WELL.items():
        text = "".join(f"{line}\n" for line in lines + further.get(name, []))
        (folder / f"{name}.journal").write_text(text)
    return Verdict(Checker(folder, FLOWS))


def test_nothing_is_wrong_with_what_came_once_and_with_repetitions_that_say_so(tmp_path: Path) -> None:
    found = verdict(tmp_path, hq=["got sales 1 14 1", "got sales 7"])
    assert found.well
    assert found.confirmed == 5
    assert sum(account.twice for account in found.accounts) == 1


@pytest.mark.parametrize(
    ("what", "further"),
    [
        ("lost", {"till": ["sent sales 3 3 20", "confirmed sales 3 3 21"]}),
        ("lost", {"desk": ["sent offers 1 1 20", "confirmed offers 1 1 21"], "york": ["got offers 1 22 0"]}),
        ("unmarked", {"hq": ["got sales 1 14 0"]}),
        ("unmarked", {"hq": ["got sales 0 14 1", "got sales 0 15 0"]}),
        ("strange", {"hq": ["got sales 3 14 0"]}),
        ("strange", {"york": ["got prices 0 14 0", "got offers 1 14 0"]}),
    ],
)
def test_what_is_wrong_is_counted(tmp_path: Path, what: str, further: dict[str, list[str]]) -> None:
    found = verdict(tmp_path, **further)
    assert not found.well
    wrong = {name: getattr(found, name) for name in ("lost", "unmarked", "strange", "unended", "wrong")}
    assert wrong == dict.fromkeys(wrong, 0) | {what: 1}


def test_a_repetition_of_the_sender_is_its_own(tmp_path: Path) -> None:
    assert verdict(tmp_path, till=["repeated sales 1 20"], hq=["got sales 1 21 0"]).well


def test_a_call_ends_or_its_caller_was_killed(tmp_path: Path) -> None:
    assert verdict(tmp_path, till=["asked stock 0 20", "answered stock 0 21 ok"]).well
    assert verdict(tmp_path, till=["asked stock 0 20", "answered stock 0 21 wrong:3"]).wrong == 1
    assert verdict(tmp_path, till=["asked stock 0 20"]).unended == 1
    killed = verdict(tmp_path, till=["asked stock 0 20", "begun 30"])
    assert killed.well
    assert killed.calls[0].abandoned == 1


def test_a_request_that_is_handled_again_has_to_say_so(tmp_path: Path) -> None:
    assert verdict(tmp_path, york=["handled key 0 20 0", "handled key 0 21 1"]).well
    assert not verdict(tmp_path, york=["handled key 0 20 0", "handled key 0 21 0"]).well


def test_late_is_the_time_that_everything_was_there(tmp_path: Path) -> None:
    away = ["down hq 21 kill", "up hq 50 kill", "down york 52 stop", "up york 53 stop"]
    sent = ["sent sales 3 3 20", "confirmed sales 3 3 20"]
    found = verdict(tmp_path, killer=away, till=sent, hq=["got sales 3 60 0"])
    assert found.kills == 2
    assert (found.age.worst, found.late.worst, found.whole.worst) == (40.0, 7.0, 10.0)
    assert found.late.which == "sales 3"
