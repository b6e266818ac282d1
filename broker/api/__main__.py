"""`python -m broker.api` writes `broker/cli/commands.json` anew, after operations or commands changed."""

import json
from pathlib import Path

from broker.api.table import catalogue


def text() -> str:
    """The catalogue, a command a line."""
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in catalogue()) + "\n]\n"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "cli" / "commands.json").write_text(text(), encoding="utf-8")
