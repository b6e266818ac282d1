"""The pictures of the documents are of the pages as they are."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_picture_is_older_than_its_pages() -> None:
    stale = runpy.run_path(str(ROOT / "website" / "pictures.py"))["stale"]
    assert stale() == [], "run 'tox -e pictures', look at what it made in docs/images, and commit it"
