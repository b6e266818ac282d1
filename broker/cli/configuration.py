"""`sapwood config fleet` and `config schema`: a whole chain's files from one table; the published schemas."""

from pathlib import Path
from typing import Final, NamedTuple

from broker.cli.errors import make_given, read_given
from broker.cli.output import note, patience, print_json
from treeconnector.wording import counted

LISTED: Final = 10


def write_fleet_files(table: Path, out: Path, *, secrets: bool, as_json: bool) -> None:
    """Write every site's file in both formats. Raises `ConfigurationError` with all mistakes of the table."""
    from config.fleet import read_sites, write_fleet

    with patience(f"writing the files of {table}"):
        rows = read_sites(table)
        make_given(out)
        report = write_fleet(rows, out, secrets=secrets)
    if as_json:
        sites = [{"name": site.name, "role": site.role} for site in report.sites]
        files = [str(path) for path in report.files]
        print_json({"sites": sites, "files": files, "warnings": list(report.warnings)})
        return
    tree = f"{counted(len(report.sites), 'site', 'makes', 'make')} one tree"
    print(f"{tree}; {counted(len(report.files), 'file')} written to {out}")
    for warning in report.warnings[:LISTED]:
        note(f"sapwood: {warning}")
    if len(report.warnings) > LISTED:
        note(f"sapwood: and {counted(len(report.warnings) - LISTED, 'warning')} more (--json lists all)")


class CommandLineValues(NamedTuple):
    """What the command line says in place of the file; '' = nothing."""

    connection: str
    name: str
    tree: str
    parent: str


def print_converted(file: Path, wanted: CommandLineValues, *, xml: bool, as_json: bool) -> None:
    """Print a site's file made from another broker's bridge. Raises `ConfigurationError`, `CommandError`."""
    from config.convert import MAX_BYTES, convert

    made = convert(read_given(file, MAX_BYTES), str(file), **wanted._asdict())
    text = made.text("xml" if xml else "yaml")
    if as_json:
        notes = [{"line": note.line or None, "text": note.text} for note in made.notes]
        print_json({"site": made.site.name, "file": text, "notes": notes})
    else:
        print(text, end="")


def print_reference(*, xml: bool, as_json: bool) -> None:
    """Print the reference file, which loads as it is. `as_json` puts it into a JSON text."""
    from config.reference import reference_xml, reference_yaml

    text = reference_xml() if xml else reference_yaml()
    if as_json:
        print_json({"reference": text})
    else:
        print(text, end="")


def print_schema(*, xsd: bool, as_json: bool) -> None:
    """Print a schema. `as_json` puts an XSD into a JSON text."""
    from config.schema import json_schema_text, xsd_text

    text = xsd_text() if xsd else json_schema_text()
    if xsd and as_json:
        print_json({"xsd": text})
    else:
        print(text, end="")
