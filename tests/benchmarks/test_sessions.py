"""The benchmark of a session's requests works, at the smallest sizes. Nothing here is timed."""

from benchmarks import sessions


def test_each_size_has_its_row() -> None:
    said: list[str] = []
    assert sessions.main(["--sizes", "0", "120"], say=said.append) == 0
    assert [line.split("|")[1].strip() for line in said[2:]] == ["0", "120"]
    assert all(line.count("|") == said[0].count("|") for line in said)


def test_a_figure_of_each_kind_was_measured() -> None:
    assert all(figure > 0 for figure in sessions.row(120))
