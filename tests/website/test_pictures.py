"""The documents' pictures: a command makes them, and the documents show each of them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "website" / "pictures.py"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", COMMAND)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documents_show_what_the_command_makes_and_nothing_else(pictures: ModuleType) -> None:
    shown = {
        found
        for page in (ROOT / "docs").rglob("*.md")
        for found in re.findall(r"images/([\w-]+)\.png\)", page.read_text("utf-8"))
    }
    there = {path.stem for path in (ROOT / "docs" / "images").iterdir()}
    assert shown == there == set(pictures.PICTURES)


def test_the_command_makes_a_picture_of_real_nodes(pictures: ModuleType, tmp_path: Path) -> None:
    name = "dashboard-topology-dark"
    words = [sys.executable, str(COMMAND), "--out", str(tmp_path), "--only", name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = tmp_path / f"{name}.png"
    with Image.open(made) as picture:
        assert picture.size == (1200, pictures.PICTURES[name][1])
        assert picture.info["Pages"] == pictures.pages(name)
        assert picture.convert("L").getpixel((600, 300)) < 60, "it is of the dark scheme"
    assert made.stat().st_size < 60_000
    assert list(tmp_path.iterdir()) == [made]


def test_a_picture_of_older_pages_is_found(
    pictures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "DASHBOARD", tmp_path)
    (tmp_path / "main.js").write_text("older")
    names = [name for name in pictures.PICTURES if name.startswith("dashboard")]
    assert [name for name in pictures.stale() if name in names] == names
