"""A wheel is plain, or has each module compiled that `hatch_build` would; which one it is, its tag says."""

import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_hook() -> object:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = load_hook()


def is_compiled(module: str) -> bool:
    found = importlib.util.find_spec(module)
    assert found is not None
    return str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))


def test_the_wheel_is_the_one_that_was_asked_for(request: pytest.FixtureRequest) -> None:
    plain = "Root-Is-Purelib: true" in str(distribution("sapwood-node").read_text("WHEEL"))
    assert plain != request.config.getoption("compiled")


def test_all_modules_that_can_be_compiled_are_so_or_none_is(request: pytest.FixtureRequest) -> None:
    paths = [path.removesuffix("/__init__.py").removesuffix(".py") for path in HOOK.compilable(ROOT)]
    modules = [path.replace("/", ".") for path in paths]
    assert len(modules) > 100
    wanted = request.config.getoption("compiled")
    assert [module for module in modules if is_compiled(module) != wanted] == []


def test_structs_and_exceptions_are_left_to_python() -> None:
    chosen = HOOK.compilable(ROOT)
    assert "treeconnector/link.py" in chosen
    assert "broker/core/node.py" in chosen
    assert not {"treeconnector/frames.py", "broker/core/rows.py", "broker/core/errors.py"} & set(chosen)


def test_the_class_that_others_derive_from_is_opened_for_them() -> None:
    policy = (ROOT / "broker" / "core" / "policy.py").read_text("utf-8")
    assert policy.count(f"\n{HOOK.OPEN}\n") == 1
