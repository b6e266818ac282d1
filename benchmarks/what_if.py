"""What a what-if costs: for chains of growing size, up to a million stores, on the cores of this machine.

    python -m benchmarks.what_if --stores 10000 100000 1000000

Each size in a process of its own: the table of sites is written, `sapwood audit` runs on it with 25
destinations at each store, three that all stores share, and 40 at the root, and what it found of this tree
and of leaf nodes is compared with arithmetic. Time is that of the whole command, Spark's start included;
memory the most that it and its Java ever took together.
"""

import argparse
import contextlib
import csv
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.processes import machine
from simulation.deployment import Deployment, generated

OWN, SHARED, ROOT = 25, 3, 40


def expected(chain: Deployment) -> dict[str, int]:
    """Advisories when all come: by depth and by lines, without Spark."""
    nodes, depths = len(chain), chain.depths()
    stores = chain.of_role("leaf")
    lines = nodes - 1
    return {
        "tree": OWN * sum(depths[store.name] for store in stores) + SHARED * lines + ROOT * lines,
        "leaf nodes": (OWN * len(stores) + ROOT) * lines + SHARED * 2 * lines,
    }


def measure(stores: int, regions: int, depth: int, master: str) -> dict[str, Any]:
    chain = generated(stores, regions=regions, depth=depth)
    with tempfile.TemporaryDirectory(prefix="sapwood-what-if-") as folder:
        sites, out = Path(folder) / "sites.csv", Path(folder) / "out"
        chain.write(sites)
        population = (f"leaf:own:{OWN}", f"leaf:offers:{SHARED}", f"root:own:{ROOT}")
        command = [sys.executable, "-m", "audit", "--deployment", str(sites), "--out", str(out), "--json"]
        command += [word for rule in population for word in ("--consumers", rule)]
        command += ["--master", master] if master else []
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            peak = Peak(process.pid)
            told, said = process.communicate()
        seconds = time.monotonic() - began
        if process.returncode:
            raise SystemExit(said[-2000:])
        with (out / "csv" / "what_if.csv").open() as file:
            rows = {row["scheme"]: row for row in csv.DictReader(file)}
    for scheme, count in expected(chain).items():
        assert int(rows[scheme]["added"]) == count, (scheme, rows[scheme]["added"], count)
    return {
        "stores": stores,
        "nodes": len(chain),
        "tree": int(rows["tree"]["added"]),
        "leaf_nodes": int(rows["leaf nodes"]["added"]),
        "seconds": round(seconds, 1),
        "audit_seconds": json.loads(told)["seconds"],
        "peak_mib": peak.most // 2**20,
    }


class Peak:
    """`most`: the largest memory that a process and its children have taken together, bytes."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        threading.Thread(target=self._watch, args=(pid,), daemon=True).start()

    def _watch(self, pid: int) -> None:
        process = psutil.Process(pid)
        while process.is_running():
            with contextlib.suppress(psutil.Error):  # one of them has just ended
                family = [process, *process.children(recursive=True)]
                self.most = max(self.most, sum(one.memory_info().rss for one in family))
            time.sleep(0.2)


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.what_if", description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--regions", type=int, default=100)
    parser.add_argument("--depth", type=int, default=3, help="2: root, region, store; 3: one level more")
    parser.add_argument("--master", default="", help="Spark's; all cores of this machine")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {"machine": machine(), "sizes": []}
    for stores in options.stores:
        row = measure(stores, options.regions, options.depth, options.master)
        found["sizes"].append(row)
        say(
            f"{stores:>9,} stores: {row['seconds']:>6} s, {row['peak_mib']:,} MiB; this tree"
            f" {row['tree']:,} advisories, leaf nodes {row['leaf_nodes']:,}"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
