"""Forwards that cannot be are refused by name, in both spellings."""

from dataclasses import replace
from pathlib import Path

import pytest

from config.channels import CHANNELS, LISTEN, NODE_PATTERN, SERVICE, Folder, Forward
from config.children import Child, Permits
from config.errors import ConfigurationError
from config.kinds import Fault
from config.load import load
from config.model import Site
from config.rules import check
from config.write import to_xml, to_yaml

TILL = Forward(name="till-web", to="localhost:8080", permit=("hq", "region-*"))


@pytest.mark.parametrize("suffix", ["xml", "yaml"])
def test_what_is_written_is_read_back(suffix: str, tmp_path: Path) -> None:
    children = (Child(name="shop", serves=("till-web@{name}",), opens=("*@hq",)),)
    logs = Folder(name="logs", path=tmp_path / "logs", read=("hq",), write=("r-*",), max_file=4096)
    permits = Permits(serves=("nothing",))
    site = Site(name="york", forwards=(TILL,), folders=(logs,), children=children, permits=permits)
    file = tmp_path / f"site.{suffix}"
    file.write_text({"xml": to_xml, "yaml": to_yaml}[suffix](check(site)))
    read = load(file)
    assert (read.forwards, read.children, read.permits) == (site.forwards, site.children, site.permits)
    assert read.folders == site.folders


def test_a_forward_that_nobody_may_reach_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="nobody may reach forward 'till-web': name the nodes"):
        check(Site(name="york", forwards=(Forward(name="till-web", to="localhost:8080"),)))


def test_a_name_stands_once() -> None:
    with pytest.raises(ConfigurationError, match="forward 'till-web' is listed twice"):
        check(Site(name="york", forwards=(TILL, TILL)))


FILES = Folder(name="files", path=Path("/files"), read=("hq",))


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        (
            (Folder(name="files", path=Path("/files")),),
            "nobody may use folder 'files': name the nodes from which files may",
        ),
        ((FILES, FILES), "folder 'files' is listed twice"),
        ((replace(FILES, name="till-web"),), "'till-web' is the name of a forward too"),
    ],
)
def test_a_folder_that_cannot_be_is_a_mistake(folders: tuple[Folder, ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check(Site(name="york", forwards=(TILL,), folders=folders))


@pytest.mark.parametrize("service", ["localhost:22", "10.0.0.7:65535", "[::1]:80", "till-1.shop:1"])
def test_services(service: str) -> None:
    assert SERVICE.parse(service) == service


@pytest.mark.parametrize(
    "wrong",
    [
        "localhost",
        "localhost:0",
        "localhost:65536",
        ":22",
        "http://till:80",
        "",
        "till..shop:80",
        "[::::]:80",
        f"{'x' * 64}:80",
    ],
)
def test_what_is_no_service(wrong: str) -> None:
    with pytest.raises(Fault):
        SERVICE.parse(wrong)


@pytest.mark.parametrize(
    "rule", ["till@shop", "*@*", "till-*@shop-*", "till@{name}", "till@{name}-1", "nothing"]
)
def test_rules_of_channels(rule: str) -> None:
    assert CHANNELS.parse(rule) == rule


@pytest.mark.parametrize("wrong", ["till", "@shop", "till@", "till/1@shop", "{name}@shop", "a@b@c"])
def test_what_is_no_rule(wrong: str) -> None:
    with pytest.raises(Fault):
        CHANNELS.parse(wrong)


def test_a_pattern_of_nodes_is_no_empty_text() -> None:
    with pytest.raises(Fault):
        NODE_PATTERN.parse("")


def test_a_rule_that_the_pattern_does_not_see_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'nothing' stands alone"):
        check(Site(name="hq", permits=Permits(serves=("nothing", "a@b"))))


@pytest.mark.parametrize("text", ["10.1.2.3", "127.0.0.1", "fd00::1"])
def test_channels_are_taken_at_addresses_that_are_named(text: str) -> None:
    assert LISTEN.parse(text) == text


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "0::0"])
def test_channels_are_not_taken_at_every_address(text: str) -> None:
    with pytest.raises(Fault, match="every address"):
        LISTEN.parse(text)


@pytest.mark.parametrize("text", ["999.1.1.1", "1.2.3", "1:2", "::::", "localhost", "10.1.2.3:80"])
def test_channels_are_not_taken_at_what_is_no_address(text: str) -> None:
    with pytest.raises(Fault, match="expected an address"):
        LISTEN.parse(text)
