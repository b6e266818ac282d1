"""The benchmark of channels works, at the smallest sizes. Nothing here is timed."""

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import channels, shaped_line, tables
from benchmarks.sapwood_chain import NAMES

SMALL = [
    "--line",
    "program",
    "--size",
    "3000000",
    "--rounds",
    "1",
    "--rate",
    "50",
    "--seconds",
    "1",
    "--channels",
    "5",
]


@pytest.mark.network
@pytest.mark.parametrize("what", channels.WHAT)
def test_a_small_run_measures_what_it_says(tmp_path: Path, what: str) -> None:
    if shutil.which("socat") is None:
        pytest.fail("socat is not there: as root 'apt-get install -y socat'", pytrace=False)
    result = tmp_path / "result.json"
    assert channels.main([*SMALL, "--what", what, "--readers", "1", "--json", str(result)]) == 0
    (row,) = found_and_shown(result, tables.channels)["rows"]
    assert row["what"] == what
    if what == "throughput":
        assert row["mb_s"]["relays"] > 0 < row["mb_s"]["channel"]
        assert all(row["cpu_s_gb"][name] > 0 for name in (*NAMES, "forward"))
    elif what == "latency":
        assert row["idle"]["p99_ms"] > 0 < row["full"]["p99_ms"]
    elif what == "many":
        assert row["open"] == dict.fromkeys(NAMES, 5)
    else:
        assert sum(row["waiting"].values()) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="a line of Linux")
def test_the_kernel_s_line_is_of_a_network_of_its_own_and_carries_bytes() -> None:
    """Where this user may make one; else nothing has changed."""
    before = os.readlink("/proc/thread-self/ns/net")
    with shaped_line.own_network() as is_ours:
        assert (os.readlink("/proc/thread-self/ns/net") != before) == is_ours
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if is_ours:
                shaped_line.shape(listener.getsockname()[1], 10.0)
            with socket.create_connection(listener.getsockname()) as near:
                far, _ = listener.accept()
                with far:
                    near.sendall(bytes(20_000))
                    near.shutdown(socket.SHUT_WR)
                    assert len(far.makefile("rb").read()) == 20_000
    assert os.readlink("/proc/thread-self/ns/net") == before
