"""Checksums of a release in one file, and its signature with `ssh-keygen -Y`.

Whoever has OpenSSH can check it, the public key is one line, and the private one may stay in an agent or a
hardware token. `docs/operations.md` has the two commands for the one who installs.
"""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from errors import ReleaseError

NAMESPACE: Final = "sapwood-release"
"""A signature counts for this use alone: one of a commit or a login by the same key is none of a release."""


def write(files: Iterable[Path], target: Path) -> Path:
    """As `sha256sum` writes and `sha256sum --check` reads it; the files lie beside `target`."""
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name)]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sign(sums: Path, key: Path) -> Path:
    """Writes SUMS.sig. A passphrase is asked for at the terminal, or an agent has the key."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    words = ["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(sums)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode or not signature.exists():
        raise ReleaseError(f"{sums.name} cannot be signed with {key}: {done.stderr.strip()}")
    return signature
