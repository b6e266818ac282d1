"""Programs in OCaml, built by dune from the library as it stands, once for all test processes of a run."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from interfaces.load import Catalogue, load
from interfaces.ocaml.libraries import write_libraries

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "interfaces"))
from every import FILES as FIRST  # noqa: E402 - found by the line above

SECOND: Final = """
interface every 2.0 "Next." {
  owners "T"
  function version "Named as what a caller says." { in version: string "Any." out said: string "The same." }
  function nothing "Says it." { out said: string "It." }
}
"""
STREAMS: Final = {
    "streams.idl": """
interface streams 1.0 "Channels in calls." {
  owners "Tests"
  struct part "One of several." { name: string "Its name." bytes: channel "Its bytes." }
  variant source "Where bytes come from." {
    stream: channel "From a channel."
    text: string "From here."
    nowhere "There are none."
  }
  error busy: part "Somebody has that one."
  function fetch "The server makes a channel, and the caller reads." {
    in name: string "Said again and again, so many times."
    in times: int64 "How often."
    out bytes: channel "All of it."
  }
  function keep "The caller makes a channel, and the server reads." {
    in bytes: channel "Whatever is to be kept."
    out size: int64 "Bytes until the end."
    out way: string "How they went."
  }
  namespace all "Wherever a type may be." {
    function echo "Back." {
      in parts: array<part> "Any number."
      in from: source "One case."
      in maybe: option<channel> "One or none."
      in named: dict<string, pair<int64, channel>> "By name."
      out parts: array<part> "Any number."
      out from: source "One case."
      out maybe: option<channel> "One or none."
      out named: dict<string, pair<int64, channel>> "By name."
      raises busy
    }
  }
}
"""
}
"""An interface whose functions pass channels."""
FILES: Final = {**FIRST, "second.idl": SECOND}
PROGRAMS: Final = Path(__file__).parent / "programs"
COMPILED: Final = ROOT / ".pytest_cache" / "ocaml"
CACHE: Final = {
    "DUNE_CACHE": "enabled",
    "DUNE_CACHE_TRANSPORT": "direct",
    "DUNE_CACHE_DUPLICATION": "copy",
}
"""To compile all takes 12 s of CPU. No daemon stays, and no file of a folder is one of the cache."""
PACKAGES: Final = {
    "ocaml-dune": "/usr/bin/dune",
    "ocaml-findlib": "/usr/bin/ocamlfind",
    "libyojson-ocaml-dev": "/usr/lib/ocaml/yojson",
    "libcohttp-lwt-unix-ocaml-dev": "/usr/lib/ocaml/cohttp-lwt-unix",
    "libssl-ocaml-dev": "/usr/lib/ocaml/ssl",
    "liblwt-ssl-ocaml-dev": "/usr/lib/ocaml/lwt_ssl",
    "utop": "/usr/bin/utop",
}
"""Debian's packages that these tests need, and how each is seen to be there."""


def missing() -> str:
    """The command that installs whatever is not there; '' if all is."""
    names = [name for name, place in PACKAGES.items() if not Path(place).exists()]
    return f"apt-get install -y --no-install-recommends {' '.join(names)}" if names else ""


def environment(folder: Path) -> dict[str, str]:
    """What dune may see. It fetches nothing; what a run before compiled from the same bytes it takes."""
    kept = {"HOME": str(folder), "XDG_CACHE_HOME": str(COMPILED), **CACHE}
    return os.environ | kept | {"OCAMLPATH": str(folder / "_build" / "install" / "default" / "lib")}


def ran(folder: Path, *command: str | Path) -> None:
    """Run a command in a folder. Raises `AssertionError` with what it says, if only a warning."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(folder))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def dune(folder: Path, *words: str) -> None:
    """Run dune in a folder; warnings are errors. Raises `AssertionError` with what it says."""
    ran(folder, "dune", *words, "--root", str(folder), "--display", "quiet")


def build(base: Path) -> Path:
    """The folder of a workspace with library and programs, built; another process may have done it."""
    if install := missing():
        raise AssertionError(f"the tests in OCaml lack something: as root, {install}")
    folder = base / "ocaml"
    with (base / "ocaml.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _lay_out(folder)
            dune(folder, "build", "@install", "@default")
            ran(folder, "dune", "cache", "trim", "--size", "200MB")
            (folder / "built").touch()
    return folder


def _lay_out(folder: Path) -> None:
    ignored = shutil.ignore_patterns("_build")
    shutil.copytree(ROOT / "ocaml", folder / "ocaml", ignore=ignored)
    shutil.copytree(PROGRAMS, folder / "programs")
    for package, catalogue in catalogues(folder / "idl").items():
        _write(folder / package, write_libraries(catalogue, package))
    (folder / "dune-project").write_text("(lang dune 2.9)\n")


def catalogues(folder: Path) -> dict[str, Catalogue]:
    """By the packages of their libraries. `folder`: for definitions that only tests have."""
    return {
        "chain": load(ROOT / "examples" / "interfaces"),
        "every": _written(folder / "every", FILES),
        "streams": _written(folder / "streams", STREAMS),
    }


def _written(folder: Path, files: dict[str, str]) -> Catalogue:
    _write(folder, files)
    return load(folder)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


async def lines_of(process: asyncio.subprocess.Process) -> list[str]:
    """The lines of a program that ends well. It may tell that its node is away: a busy machine starts one
    anew slowly.
    """
    output, errors = await process.communicate()
    told = [line for line in errors.decode().splitlines() if not line.endswith("; it is tried again")]
    assert (process.returncode, told) == (0, [])
    return output.decode().splitlines()
