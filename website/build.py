#!/usr/bin/env python3
"""Builds the site of documents: `_site/VERSION`, beside the versions that are there, with a list of them all.

    python website/build.py                 # the version of pyproject.toml
    python website/build.py --out DIR       # into another folder

Open `_site/index.html`, or serve the folder by any server of files; the choice of a version needs a server,
all else does not. Needs `mkdocs-material`, `mkdocstrings[python]`, and npm once, for two scripts.
"""

import argparse
import hashlib
import json
import logging
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from mkdocs.commands.build import build
from mkdocs.config import load_config

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent
SCRIPTS: Final = {
    "mermaid.js": (
        "mermaid@11.17.2",
        "package/dist/mermaid.min.js",
        "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8",
    ),
    "iframe-worker.js": (
        "iframe-worker@1.0.4",
        "package/shim/index.js",
        "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
    ),
}
"""One draws diagrams, one lets pages search that no server gives; the theme has them elsewhere. Each with the
SHA-256 of its file."""
FIRST: Final = """\
<!doctype html>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">{0}</a>
"""


def main() -> int:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    reader.add_argument("--out", type=Path, default=ROOT / "_site")
    out = reader.parse_args().out
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    config = load_config(str(HERE / "mkdocs.yml"), site_dir=str(out / version), strict=True)
    config.extra["scripts"] = {name: str(script(*source)) for name, source in SCRIPTS.items()}
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    listed(out, version)
    print(out / version / "index.html")
    return 0


def script(package: str, member: str, sha256: str) -> Path:
    """One file of a package; it is fetched once. Raises `ValueError` if it is not the one that it was."""
    kept = ROOT / ".tox" / "scripts" / f"{package}.js"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            words = ["npm", "pack", "--silent", "--pack-destination", folder, package]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                opened = archive.extractfile(member)
                assert opened is not None, f"{package} has no {member}"
                kept.write_bytes(opened.read())
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    if found != sha256:
        raise ValueError(f"{member} of {package} has SHA-256 {found}: expected {sha256}; see {kept}")
    return kept


def listed(out: Path, newest: str) -> None:
    """`versions.json`, in the form that the theme reads, and a first page that leads to the newest."""
    found = sorted(
        (path.name for path in out.iterdir() if (path / "index.html").exists()), key=numbers, reverse=True
    )
    versions = [{"version": each, "title": each, "aliases": ["latest"] * (each == newest)} for each in found]
    (out / "versions.json").write_text(json.dumps(versions) + "\n", "utf-8")
    (out / "index.html").write_text(FIRST.format(newest), "utf-8")


def numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


if __name__ == "__main__":
    sys.exit(main())
