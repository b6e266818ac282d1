"""A script that the site takes from elsewhere is the one that was looked at."""

import hashlib
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of `website/build.py`, without MkDocs."""
    for name in ("mkdocs", "mkdocs.commands", "mkdocs.commands.build", "mkdocs.config"):
        module = ModuleType(name)
        module.build = module.load_config = None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(ROOT / "website" / "build.py"))


def test_a_script_of_another_hash_is_refused(program: dict[str, Any], tmp_path: Path) -> None:
    script = program["script"]
    script.__globals__["ROOT"] = tmp_path
    kept = tmp_path / ".tox" / "scripts" / "drawing@1.0.0.js"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"draw()")
    sha256 = hashlib.sha256(b"draw()").hexdigest()
    assert script("drawing@1.0.0", "package/drawing.js", sha256) == kept
    kept.write_bytes(b"steal()")
    with pytest.raises(ValueError, match="expected " + sha256):
        script("drawing@1.0.0", "package/drawing.js", sha256)


def test_each_script_has_its_hash(program: dict[str, Any]) -> None:
    for package, _, sha256 in program["SCRIPTS"].values():
        assert "@" in package
        assert len(bytes.fromhex(sha256)) == 32
