"""Files that the channels of a command line are written to."""

import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.channels.ends import ChannelFailed, Placed
from sapwood.channels.urls import ChannelUrls
from sapwood.options import NodePlace
from sapwood.stub_channels import received


class Nowhere(Placed):
    place = NodePlace("ws://127.0.0.1:1/session")


def test_a_file_stays_where_no_channel_can_be_taken(tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"the last one")
    gone = ChannelUrls(urls=["unix:/tmp/sapwood-channel-nowhere0/socket"], secret="A" * 43)
    with pytest.raises(ChannelFailed):
        received(Nowhere(), "png", gone, str(file))
    assert file.read_bytes() == b"the last one"


def test_files_are_opened_and_closed_where_no_standard_stream_is_open(tmp_path: Path) -> None:
    program = """
import sys
from sapwood.stub_channels import FileFailed, _closed, _opened
assert (sys.stdin, sys.stdout) == (None, None)
file = _opened(sys.argv[1], "wb")
_closed(file)
assert file.closed
for mode in ("rb", "wb"):
    try:
        _opened("-", mode)
    except FileFailed as error:
        print(error, file=sys.stderr)
"""
    words = [sys.executable, "-P", "-c", program, str(tmp_path / "picture.png")]
    closed = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *words]
    ran = subprocess.run(closed, stderr=subprocess.PIPE, text=True, timeout=180)
    said = "standard input is closed: name a file\nstandard output is closed: name a file\n"
    assert (ran.stderr, ran.returncode) == (said, 0)
