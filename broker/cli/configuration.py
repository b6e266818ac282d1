"""`sapwood config fleet` and `config schema`: a whole chain's files from one table; the published schemas."""

from pathlib import Path

from broker.cli.output import patience, print_json


def write_fleet_files(table: Path, out: Path, *, as_json: bool) -> None:
    """Write every site's file in both formats. Raises `ConfigurationError` with all mistakes of the table."""
    from config.fleet import read_sites, write_fleet

    with patience(f"writing the files of {table}"):
        sites = read_sites(table)
        written = write_fleet(sites, out)
    if as_json:
        print_json({"sites": len(sites), "files": [str(path) for path in written]})
    else:
        print(f"{len(sites)} sites make one tree; {len(written)} files written to {out}")


def print_schema(*, xsd: bool, as_json: bool) -> None:
    """Print a schema. `as_json` puts an XSD into a JSON text."""
    from config import schemas

    if not xsd:
        print(schemas.json_schema(), end="")
    elif as_json:
        print_json({"xsd": schemas.xsd()})
    else:
        print(schemas.xsd(), end="")
