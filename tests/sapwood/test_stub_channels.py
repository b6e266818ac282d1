"""Files that the channels of a command line are written to."""

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
