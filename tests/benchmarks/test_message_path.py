"""One message can be traced through three nodes, and the documents say how long its way is."""

import re
import subprocess
import sys

import pytest

from benchmarks import message_path, pages
from benchmarks.message_path import ARRIVAL, Phase

CURE = "run: python -m benchmarks.message_path --write"
NEAR_CALLS, NEAR_MODULES = 0.05, 2
MOST_CALLS, MOST_MODULES = 60, 12


@pytest.fixture(scope="module")
def phases() -> list[Phase]:
    return message_path.trace()


def figures(table: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Modules and calls by node and phase."""
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (\d+) \| \d+ \| (\d+) \|$", table, re.MULTILINE)
    return {(node, name): (int(modules), int(calls)) for node, name, modules, calls in rows}


def test_the_way_is_traced_from_the_sender_to_the_reader(phases: list[Phase]) -> None:
    assert [phase.node for phase in phases] == ["hq", "hq", "north", "north", "york", "york", "york", "york"]
    arrival = next(phase for phase in phases if (phase.node, phase.name) == ("north", ARRIVAL))
    functions = {call.function for call in arrival.calls}
    assert {"NodeCore.receive", "NodeCore.take"} <= functions, "from the packet to the transaction"
    assert any(call.module.startswith("treeconnector.") for call in arrival.calls)
    assert not any(call.module.startswith(("simulation", "benchmarks")) for call in arrival.calls)
    assert message_path.table(message_path.trace()) == message_path.table(phases), "the same each time"


def test_a_message_takes_few_steps_at_a_node_on_the_way(phases: list[Phase]) -> None:
    arrival = next(phase for phase in phases if (phase.node, phase.name) == ("north", ARRIVAL))
    assert len(arrival.modules) <= MOST_MODULES, message_path.by_module(arrival)
    assert len(arrival.calls) <= MOST_CALLS


def test_the_table_in_the_documents_is_true(phases: list[Phase]) -> None:
    written = pages.put_in(message_path.DOCUMENT, message_path.NAME)
    said, found = figures(written), figures(message_path.table(phases))
    assert said.keys() == found.keys(), CURE
    for where, (modules, calls) in found.items():
        assert abs(modules - said[where][0]) <= NEAR_MODULES, f"{where}: {modules} modules now; {CURE}"
        near = max(2, NEAR_CALLS * said[where][1])
        assert abs(calls - said[where][1]) <= near, f"{where}: {calls} calls now; {CURE}"


def test_the_command_prints_the_table_and_each_call(phases: list[Phase]) -> None:
    command = [sys.executable, "-m", "benchmarks.message_path", "--calls"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=message_path.ROOT, check=True)
    assert message_path.table(phases) in done.stdout
    assert "    broker.core.node  NodeCore.hear" in done.stdout
