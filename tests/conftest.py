"""What holds for all tests: no setting of the person who runs them leaks in, and hypothesis has no deadline.

Time is never asserted: on a machine that does other things too, a slow example is no defect.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "sapwood", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("sapwood"), derandomize=False, max_examples=2000)
settings.load_profile("sapwood")


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget SAPWOOD_… variables and proxies."""
    for name in list(os.environ):
        if name.startswith("SAPWOOD_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)
