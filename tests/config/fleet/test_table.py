from pathlib import Path

import pytest

from config.errors import ConfigurationError
from config.fleet import COLUMNS, SiteRow, read_sites
from config.fleet.table import MAX_ROWS

SMALL = "name,parent,role,address\nhq,,root,hq.example.com\nstore,hq,leaf,\n"


def table(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "sites.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    path = table(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        read_sites(path)
    return [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]


def test_rows_keep_their_order_and_place(tmp_path: Path) -> None:
    path = table(tmp_path, SMALL)
    assert read_sites(path) == [
        SiteRow(name="hq", role="root", address="hq.example.com", file=str(path), line=2),
        SiteRow(name="store", role="leaf", parent="hq", file=str(path), line=3),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_of_every_office_program_are_read(tmp_path: Path, delimiter: str) -> None:
    lines = [
        '\ufeff"Name";Parent;ROLE;Address;Site Broker;listen-port',
        "# HQ",
        ";;;;;",
        " hq ;;Root;h:7700;;7701",
        "s;hq;leaf",
    ]
    text = "\r\n".join(lines).replace(";", delimiter) + "\r\n"
    hq, store = read_sites(table(tmp_path, text))
    assert (hq.name, hq.role, hq.address, hq.listen_port, hq.line) == ("hq", "root", "h:7700", "7701", 4)
    assert (store.name, store.parent, store.line) == ("s", "hq", 5)


def test_a_cell_with_a_line_break_keeps_the_lines_right(tmp_path: Path) -> None:
    text = SMALL.replace("address\n", 'address,region\n"",,,,"\n\n"\n').replace(
        "store,hq,leaf", "store,hq,twig"
    )
    assert problems(tmp_path, text) == ["6:role: expected leaf, branch or root, found 'twig'"]


def test_every_wrong_cell_is_listed_with_line_and_column(tmp_path: Path) -> None:
    text = (
        "name,parent,role,address,site_broker,listen_port,secret_env,zone\n"
        "hq,,root,hq:99999,,,,\n"
        "a b,hq,laef,tcp://x,tcp://y,70000,A B,local\n"
    )
    assert [found.split(": ")[0] for found in problems(tmp_path, text)] == [
        "2:address",
        "3:name",
        "3:role",
        "3:site_broker",
        "3:zone",
        "3:listen_port",
        "3:secret_env",
        "3:address",
    ]
    assert "found 'laef'; did you mean 'leaf'?" in problems(tmp_path, text)[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            [
                "1: the column 'name' is missing",
                "1: the column 'role' is missing",
                "1: the column 'parent' is missing",
            ],
        ),
        ("name,parent,role,name\n", ["1: column 'name' stands here twice"]),
        (
            "name,parent,rolle\n",
            ["1: 'rolle' is not a column; did you mean 'role'?", "1: the column 'role' is missing"],
        ),
        ("name,parent,role,x\n", [f"1: 'x' is not a column; expected some of {', '.join(COLUMNS)}"]),
        (SMALL + "s2,hq,leaf,,x\n", ["4: expected at most 4 cells, found 5"]),
        (SMALL + '"s2,hq', ["4: this is not CSV: unexpected end of data"]),
        (SMALL.encode() + b"\xff\n", ["4: this is not UTF-8: save it as UTF-8"]),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, text: str | bytes, expected: list[str]) -> None:
    assert problems(tmp_path, text) == expected


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.csv: cannot read the table: No such file"):
        read_sites(tmp_path / "absent.csv")


def test_a_table_without_end_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"s{i},hq,leaf,\n" for i in range(MAX_ROWS))
    assert problems(tmp_path, SMALL + rows) == [f"{MAX_ROWS + 2}: expected at most {MAX_ROWS} rows"]


def test_an_address_is_completed() -> None:
    def uris(address: str, certificate: str = "") -> tuple[str, ...]:
        return SiteRow(name="n", role="leaf", address=address, certificate=certificate).addresses

    assert uris("") == ()
    assert uris("hq") == ("ws://hq:7600/link",)
    assert uris("hq:99", "c.pem") == ("wss://hq:99/link",)
    assert uris("[::1]:99 wss://b amqp://c") == ("ws://[::1]:99/link", "wss://b:7600/link", "amqp://c:5672")
