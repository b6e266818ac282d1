"""The system's Chromium, as tests/dashboard has it. Without one a test fails, and says what to install."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


def program() -> str:
    """Path of the browser's program."""
    found = os.environ.get("SAPWOOD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.fail(
            "these tests need Chromium: as root 'apt-get install -y chromium', or set SAPWOOD_CHROMIUM"
        )
    return found
