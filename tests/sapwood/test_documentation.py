"""What docs/client.md, rpc.md and services.md show is Python, is JSON that is read, and is complete."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from config import yaml
from sapwood import RpcError, ServiceError, errors
from sapwood.rpc_messages import decode_reply, decode_request

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {name: (DOCS / f"{name}.md").read_text("utf-8") for name in ("client", "rpc", "services")}
BLOCKS = [
    (kind, block)
    for text in TEXTS.values()
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
]


def blocks(kind: str) -> list[str]:
    return [block for each, block in BLOCKS if each == kind]


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.strip()[:30])
def test_every_program_is_one(block: str) -> None:
    compile(block, "docs", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_name_that_is_imported_is_there() -> None:
    imports = sorted(
        {line for block in blocks("python") for line in re.findall(r"^from sapwood.*$", block, re.M)}
    )
    assert len(imports) > 5
    exec("\n".join(imports), {})


def test_requests_and_replies_are_read() -> None:
    request, *replies = [line for block in blocks("json") for line in block.splitlines()]
    assert decode_request(request.encode()).parameters == {"article": 4711}
    assert decode_reply(replies[0].encode()) == 12
    with pytest.raises(ServiceError, match="NO_SUCH_ARTICLE"):
        decode_reply(replies[1].encode())
    assert all(json.loads(line) for line in (request, *replies))


def test_the_debug_mode_is_a_site_s_setting() -> None:
    (text,) = blocks("yaml")
    assert yaml.read(text).debug.deliver_twice == 0.05


def test_every_end_of_a_call_is_explained() -> None:
    found = {
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, RpcError)
    }
    assert {name for name in found - {"RpcError"} if f"| `{name}` |" not in TEXTS["rpc"]} == set()


def test_the_library_needs_no_package_of_the_node() -> None:
    """Neither ours nor others': what it imports, also when it is used, is what docs/client.md says."""
    program = """
import importlib, pkgutil, sys
import sapwood
ours = {"broker", "bridges", "config", "yaml", "rich", "typer", "uvloop"}
sys.meta_path.insert(0, type("No", (), {"find_spec": staticmethod(
    lambda name, *_: (_ for _ in ()).throw(ImportError(name)) if name.split(".")[0] in ours else None)}))
for module in pkgutil.iter_modules(sapwood.__path__, "sapwood."):
    importlib.import_module(module.name)
import asyncio
from sapwood import connect, ConnectFailed
async def main():
    try:
        await connect("http://127.0.0.1:1", timeout=0.01).open()
    except ConnectFailed:
        print(sorted(name for name in ours if name in sys.modules))
asyncio.run(main())
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
