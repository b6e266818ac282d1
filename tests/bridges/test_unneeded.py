"""A library that is loaded finds stand-ins for what it does not need; afterwards nobody meets them."""

import subprocess
import sys
from pathlib import Path

import pytest

from bridges.unneeded import without

LIBRARY = """
import wanted_in_vain.part
try:
    import really_there
    found = True
except ImportError:
    found = False
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library that loads two packages, each of which would say that it was loaded."""
    (tmp_path / "wanted_in_vain").mkdir()
    (tmp_path / "wanted_in_vain" / "__init__.py").write_text("")
    (tmp_path / "wanted_in_vain" / "part.py").write_text("real = True")
    (tmp_path / "really_there.py").write_text("real = True")
    (tmp_path / "a_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("a_library", "really_there", "wanted_in_vain", "wanted_in_vain.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "a_library"


def test_a_library_does_not_load_what_it_does_not_need(library: str) -> None:
    with without("wanted_in_vain.part", absent=("really_there",)):
        module = __import__(library)
    assert not module.found
    assert not hasattr(module.wanted_in_vain, "part")
    assert not {"wanted_in_vain.part", "really_there"} & sys.modules.keys()
    import wanted_in_vain.part  # type: ignore[import-not-found]

    assert wanted_in_vain.part.real, "whoever needs it later has the real one"


def test_a_module_that_is_loaded_stays_so(library: str) -> None:
    import really_there  # type: ignore[import-not-found]
    import wanted_in_vain.part

    loaded = wanted_in_vain.part
    with without("wanted_in_vain.part", absent=("really_there",)):
        module = __import__(library)
    assert not module.found
    assert module.wanted_in_vain.part is loaded
    assert sys.modules["wanted_in_vain.part"] is loaded
    assert sys.modules["really_there"] is really_there


def test_the_stand_ins_go_when_the_library_cannot_be_loaded() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"), without("nobody_wants_it"):
        __import__("no_such_library")
    assert "nobody_wants_it" not in sys.modules


def test_paho_and_websockets_are_loaded_without_what_they_do_not_need() -> None:
    program = """
import sys
from bridges.carriers.websocket import connect
from bridges.mqtt.library import paho
assert connect and paho.Client and "websockets.client" in sys.modules
unneeded = {"dns", "email", "http.client", "importlib.metadata", "urllib.request", "zipfile"}
print(*sys.modules.keys() & unneeded)
import urllib.request, importlib.metadata
assert urllib.request.urlopen and importlib.metadata.version("websockets")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
