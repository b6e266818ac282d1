"""`sapwood definitions export|import`: all that a node has when nothing waits, as one file."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from broker.cli.errors import WRONG_USE, CommandError, read_given
from broker.cli.node_api import NodeApi
from broker.cli.output import print_json, printable
from treeconnector.wording import counted

_PATH: Final = "/api/definitions"
_ONES: Final = {
    "queues": "queue",
    "subscriptions": "durable subscription",
    "routes": "route",
    "permits": "permit",
}


def export_to(api: NodeApi, file: Path | None) -> None:
    """Write them, to standard output without a file. Raises `CommandError`."""
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"{file.parent} is no folder: make it first", WRONG_USE)
    found = api.get(_PATH)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if file is None:
        sys.stdout.write(text)
    else:
        _write(file, text)
        print(f"{file} has {_listed({name: len(found[name]) for name in _ONES})} of {found['node']}")
    if found["left_out"]:
        number = counted(found["left_out"], "durable subscription")
        print(f"left out: {number} without an account, or of MQTT clients", file=sys.stderr)


def _write(file: Path, text: str) -> None:
    """Whole, or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text(text, "utf-8")
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def import_from(api: NodeApi, file: Path, *, check: bool, as_json: bool) -> None:
    """Take them; with `check`, say only what would change. Raises `CommandError`."""
    expected = f"{file}: expected the JSON that `definitions export` writes"
    try:
        body: Any = json.loads(read_given(file))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{expected}: {error}", WRONG_USE) from None
    if not isinstance(body, dict):
        raise CommandError(expected, WRONG_USE)
    done = api.change("POST", _PATH, body, check=check)
    if as_json:
        print_json(done)
        return
    made, same = _listed(done["made"]), _listed(done["same"])
    print(f"{'would be made' if check else 'made'} at {done['node']}: {made}; there already: {same}")
    for each in done["differences"]:
        print(printable(f"differs, and stays: {each}"))


def _listed(counts: dict[str, int]) -> str:
    found = [counted(count, _ONES[name]) for name, count in counts.items() if count]
    return ", ".join(found) or "nothing"
