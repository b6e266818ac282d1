"""Reads the table of sites: CSV with a header, one row a site, columns in any order.

Comma, semicolon or tab stand between values. Empty rows and rows that begin with `#` are skipped. Names of
columns are read without regard to case, `Site Broker` as `site_broker`.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from config.errors import ConfigurationError, Problem, did_you_mean
from config.fields import Scalar, settings
from config.files import read_plain
from config.fleet.row import ROLES, SiteRow
from config.fleet.tree import tree_problems
from config.kinds import Choice, Fault, Kind, shown
from config.model import ClientTls, Listener, ServerTls, Site, SiteBroker, TreeConnector
from sapwood.protocol.errors import PatternError
from treeconnector.permits import read_rule
from treeconnector.wording import counted

MAX_BYTES: Final = 64 * 2**20
MAX_ROWS: Final = 200_000


def _kind(cls: type[Any], name: str) -> Kind[Any]:
    return next(one.kind for one in settings(cls) if isinstance(one, Scalar) and one.name == name)


_KINDS: Final[dict[str, Kind[Any]]] = {
    "name": _kind(Site, "name"),
    "role": Choice(ROLES),
    "mesh": _kind(Site, "name"),
    "site_broker": _kind(SiteBroker, "uri"),
    "site_broker_user": _kind(SiteBroker, "user"),
    "site_broker_secret_env": _kind(SiteBroker, "secret_env"),
    "site_broker_secret_file": _kind(SiteBroker, "secret_file"),
    "tree": _kind(Site, "tree"),
    "zone": _kind(Site, "zone"),
    "data": _kind(Site, "data"),
    "listen_host": _kind(Listener, "host"),
    "listen_port": _kind(Listener, "port"),
    "secret_env": _kind(TreeConnector, "secret_env"),
    "secret_file": _kind(TreeConnector, "secret_file"),
    "children_secrets": _kind(Site, "children_secrets"),
    "link_user": _kind(TreeConnector, "user"),
    "link_password_env": _kind(TreeConnector, "password_env"),
    "link_password_file": _kind(TreeConnector, "password_file"),
    "ca": _kind(ClientTls, "ca"),
    "certificate": _kind(ServerTls, "certificate"),
    "key": _kind(ServerTls, "key"),
    "client_ca": _kind(ServerTls, "client_ca"),
}

COLUMNS: Final = tuple(field.name for field in fields(SiteRow) if field.name not in ("file", "line"))
_REQUIRED: Final = ("name", "role", "parent")


def read_sites(csv_path: str | Path, *, dialled: bool = True) -> list[SiteRow]:
    """Return the rows of the table, in its order. Without `dialled` no node needs an address.

    Raises `ConfigurationError` with every mistake in a cell and in the tree as a whole, with line and column.
    """
    file = str(csv_path)
    rows, problems = _rows(_text(Path(csv_path)), file)
    for row in rows:
        problems += cell_problems(row)
    problems += tree_problems(rows, dialled=dialled)
    if problems:
        raise ConfigurationError(sorted(problems, key=lambda problem: problem.line or 0))
    return rows


def cell_problems(row: SiteRow) -> list[Problem]:
    """Return what is wrong in single cells of a row."""
    problems = []
    for column, kind in _KINDS.items():
        text = getattr(row, column)
        try:
            if text or column in ("name", "role"):
                kind.parse(text)
        except Fault as fault:
            near = did_you_mean(text, ROLES) if column == "role" else ""
            problems.append(Problem(f"{fault}{near}", row.file, row.line, column))
    problems += [*_parent_problems(row), *_rule_problems(row)]
    try:
        _ = row.addresses
    except Fault as fault:
        message = f"expected host, host:port or a URI: {fault}"
        problems.append(Problem(message, row.file, row.line, "address"))
    return problems


def _parent_problems(row: SiteRow) -> Iterator[Problem]:
    for name in row.parents:
        try:
            _KINDS["name"].parse(name)
        except Fault as fault:
            yield Problem(str(fault), row.file, row.line, "parent")


def _rule_problems(row: SiteRow) -> Iterator[Problem]:
    for column in ("consume", "send"):
        for text in getattr(row, column).split():
            try:
                read_rule(text, cells=column == "send")
            except PatternError as error:
                yield Problem(str(error), row.file, row.line, column)


def _text(path: Path) -> str:
    try:
        data = read_plain(path, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise ConfigurationError([Problem(f"expected a table of at most {MAX_BYTES} bytes", str(path))])
        return data.decode("utf-8-sig")
    except OSError as error:
        message = f"cannot read the table: {error.strerror or error}"
        raise ConfigurationError([Problem(message, str(path))]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError([Problem("this is not UTF-8: save it as UTF-8", str(path), line)]) from None


def _rows(text: str, file: str) -> tuple[list[SiteRow], list[Problem]]:
    records = _records(text, file)
    header_line, header = next(records, (1, []))
    columns = [cell.lower().replace(" ", "_").replace("-", "_") for cell in header]
    problems = [*_header_problems(columns, file, header_line)]
    if problems:
        raise ConfigurationError(problems)
    rows = []
    for line, cells in records:
        if len(cells) > len(columns) and any(cells[len(columns) :]):
            message = f"expected at most {counted(len(columns), 'cell')}, found {len(cells)}"
            problems.append(Problem(message, file, line))
        given = dict(zip(columns, cells, strict=False))
        given |= {"role": given.get("role", "").lower(), "name": given.get("name", "")}
        rows.append(SiteRow(**given, file=file, line=line))
        if len(rows) > MAX_ROWS:
            raise ConfigurationError([Problem(f"expected at most {MAX_ROWS} rows", file, line)])
    return rows, problems


def _records(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record begins and its cells, stripped."""
    lines = iter(text.splitlines())
    head = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for record in reader:
            cells = [cell.strip() for cell in record]
            if any(cells) and not cells[0].startswith("#"):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise ConfigurationError([Problem(f"this is not CSV: {error}", file, reader.line_num)]) from None


def _header_problems(columns: list[str], file: str, line: int) -> Iterator[Problem]:
    for position, column in enumerate(columns):
        if column in columns[:position]:
            yield Problem(f"column {shown(column)} stands here twice", file, line)
        elif column not in COLUMNS:
            near = did_you_mean(column, COLUMNS) or f"; expected some of {', '.join(COLUMNS)}"
            yield Problem(f"{shown(column)} is not a column{near}", file, line)
    for column in _REQUIRED:
        if column not in columns:
            yield Problem(f"the column {column!r} is missing", file, line)
