"""Benchmarks are no part of the wheel: their folder is found behind everything that is installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
