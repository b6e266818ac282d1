import pytest
import yaml as pyyaml

from config.model import Child, Link, Listener, Site, TreeConnector
from config.write import to_xml, to_yaml, xml_text, yaml_scalar


def test_only_what_differs_from_the_defaults_is_written() -> None:
    site = Site(
        name="uk",
        tree_connectors=(TreeConnector(nodetype="branch", uri="ws://hq", uris=("ws://b",)),),
        listener=Listener(port=7601),
        children=(Child(name="a"), Child(name="b", max_routes=2)),
        link=Link(keep_alive=90.5),
    )
    assert to_xml(site) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<broker name="uk">\n'
        "  <treeConnectors>\n"
        '    <treeConnector nodetype="branch" uri="ws://hq">\n'
        "      <uris>\n"
        "        <uri>ws://b</uri>\n"
        "      </uris>\n"
        "    </treeConnector>\n"
        "  </treeConnectors>\n"
        '  <listener port="7601"/>\n'
        "  <children>\n"
        '    <child name="a"/>\n'
        '    <child name="b" maxRoutes="2"/>\n'
        "  </children>\n"
        '  <link keepAlive="1m30s500ms"/>\n'
        "</broker>\n"
    )
    assert to_yaml(site) == (
        "broker:\n"
        "  name: uk\n"
        "  tree_connectors:\n"
        "    - nodetype: branch\n"
        '      uri: "ws://hq"\n'
        "      uris:\n"
        '        - "ws://b"\n'
        "  listener:\n"
        "    port: 7601\n"
        "  children:\n"
        "    - name: a\n"
        "    - name: b\n"
        "      max_routes: 2\n"
        "  link:\n"
        "    keep_alive: 1m30s500ms\n"
    )


def test_markup_in_a_value_is_escaped() -> None:
    assert xml_text('<a b="c&d">') == "&lt;a b=&quot;c&amp;d&quot;&gt;"


@pytest.mark.parametrize(
    "text", ["no", "Yes", "y", "1e5", "0042", "1:30", "~", "null", "a: b", "a #b", "- a", "", "é", "'"]
)
def test_a_text_stays_a_text_for_every_reader_of_yaml(text: str) -> None:
    assert pyyaml.safe_load(f"a: {yaml_scalar(text)}") == {"a": text}
    assert yaml_scalar(text).startswith('"')


def test_what_is_clear_stands_without_quotes() -> None:
    assert [yaml_scalar(one) for one in ("hq", "10s", "64KiB", 7, True)] == [
        "hq",
        "10s",
        "64KiB",
        "7",
        "true",
    ]
