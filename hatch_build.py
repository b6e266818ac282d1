"""The node's wheel, made in a checkout, takes the client library that stands beside it; and may be compiled.

`sapwood-node` depends on `sapwood-client` of its own version. In a checkout that version may be nowhere else
than here, so `pip install .` is told where, and no version: beside an address pip asks its index for the
version all the same. A release is made by way of an sdist, as `python -m build` does it; there is no `client`
in it, so its wheel names the version alone. An editable install names both,
`pip install -e ./client -e .`: a copy of the client would hide what is edited here.

With `SAPWOOD_COMPILED=1` in the environment mypyc compiles the pure houses: then the wheel is for one Python
on one kind of machine. Their sources stay in it, and whatever cannot be compiled runs from them.
"""

import ast
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOUSES: Final = ("treeconnector", "broker/core")
TYPED: Final = ("msgspec", "zstandard")
_READ: Final = ("treeconnector", "broker", "sapwood")
OPEN: Final = "class Policy:"
"""Interpreted classes have it as their base, in the node's process and in tests; mypyc has to be told."""
OPENED: Final = f"""from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
{OPEN}"""


class NodeWheel(BuildHookInterface[Any]):
    """Says where the client library is, and compiles the pure houses where that is asked for."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _client(self) -> Path:
        return Path(self.root) / "client"

    @property
    def _compiles(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("SAPWOOD_COMPILED") == "1"

    def dependencies(self) -> list[str]:
        """Of the build. The compiler reads the types of what the pure houses import."""
        if not self._compiles:
            return []
        typed = [each for each in self.metadata.core.dependencies if each.startswith(TYPED)]
        client = [] if self._client.is_dir() else [f"sapwood-client=={self.metadata.version}"]
        return ["mypy>=2", "setuptools>=65", *typed, *client]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is "standard" or "editable"."""
        beside = version == "standard" and self._client.is_dir()
        where = f" @ {self._client.as_uri()}" if beside else f"=={self.metadata.version}"
        build_data["dependencies"].append(f"sapwood-client{where}")
        if self._compiles and version == "standard":
            self._made = tempfile.TemporaryDirectory()
            place = Path(self._made.name)
            libraries = compiled(Path(self.root), place)
            build_data["force_include"] |= {str(each): str(each.relative_to(place)) for each in libraries}
            build_data["dependencies"].append("mypy-extensions>=1")
            build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._made is not None:
            self._made.cleanup()


def compilable(root: Path) -> list[str]:
    """The modules that mypyc compiles: all but those with a class whose memory somebody else lays out, as
    msgspec does with its `Struct`s, and Python with exceptions of `sapwood`, which are not compiled.
    """
    modules = (path for house in HOUSES for path in sorted((root / house).rglob("*.py")))
    return [str(path.relative_to(root)) for path in modules if not _is_laid_out_elsewhere(path)]


def _is_laid_out_elsewhere(path: Path) -> bool:
    classes = (
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)
    )
    bases = (ast.unparse(base) for each in classes for base in each.bases)
    return any(base.endswith(("Struct", "Error")) for base in bases)


def compiled(root: Path, place: Path) -> list[Path]:
    """The libraries that mypyc makes of the pure houses, below `place`, where it finds a copy of them."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    for house in _READ:
        if (root / house).is_dir():
            shutil.copytree(root / house, place / house)
    policy = place / "broker" / "core" / "policy.py"
    policy.write_text(policy.read_text("utf-8").replace(OPEN, OPENED), "utf-8")
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
    with contextlib.chdir(place):
        modules = mypycify(
            [*options, *compilable(root)],
            multi_file=True,
            opt_level="1",
            debug_level="0",
            group_name="sapwood",
        )
        distribution = Distribution({"name": "sapwood-node", "ext_modules": modules})
        command = distribution.get_command_obj("build_ext")
        command.inplace, command.parallel = True, os.cpu_count()
        distribution.run_command("build_ext")
    return [path for path in place.rglob("*.so") if "build" not in path.relative_to(place).parts]
