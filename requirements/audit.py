#!/usr/bin/env python3
"""Asks a database of known weaknesses about every package of the locks, with `pip-audit`.

Exit code 0: nothing is known of these; 1: something is, and it is printed; 2: no database could be reached,
so nothing was checked.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
UNREACHED: Final = (
    "ConnectionError",
    "ConnectTimeout",
    "ServiceError",
    "Max retries",
    "Failed to query",
    "HTTPError",
    "could not be audited",
    "not found on",
)


def main() -> int:
    return max(audit(lock) for lock in sorted(HERE.glob("*.lock")))


def audit(lock: Path) -> int:
    words = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(lock),
        "--require-hashes",
        "--disable-pip",
        "--strict",
    ]
    done = subprocess.run(  # noqa: S603 - our own words
        [*words, *sys.argv[1:]], capture_output=True, text=True, check=False
    )
    print(done.stdout, end="")
    if done.returncode == 0:
        print(f"{lock.name}: no weakness of its packages is known")
        return 0
    print(done.stderr, end="", file=sys.stderr)
    if any(word in done.stderr for word in UNREACHED):
        print(
            f"{lock.name}: NOT CHECKED: no database of weaknesses could be reached from here", file=sys.stderr
        )
        return 2
    return 1


if __name__ == "__main__":
    sys.exit(main())
