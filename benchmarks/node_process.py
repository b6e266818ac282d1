"""One node as a process: `python -m benchmarks.node_process FILE [--profile OUT]`.

As `sapwood node run FILE`, but with a profile of the process where asked: a table sorted by own time, then
one by time with callees. A profile makes everything slower by half or more: compare within it only.
"""

import argparse
import cProfile
import pstats
import sys
from pathlib import Path

from broker.process import run_node
from config.load import load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args()
    site = load(options.file)
    if options.profile is None:
        return run_node(site)
    profile = cProfile.Profile()
    try:
        return profile.runcall(run_node, site)
    finally:
        with options.profile.open("w") as out:
            stats = pstats.Stats(profile, stream=out).strip_dirs()
            stats.sort_stats("tottime").print_stats(45)
            stats.sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    sys.exit(main())
