import pytest

from config.build import MOST_MISTAKES
from config.document import MAX_BYTES
from config.errors import ConfigurationError
from config.model import Child, Listener, Site, SiteBroker, TreeConnector
from config.xml import read

EXAMPLE = """<broker name="store-0042" tree="acme">
  <siteBroker uri="mqtt://localhost:1883"/>            <!-- amqp://…, or leave out: embedded -->
  <treeConnectors>
    <treeConnector nodetype="leaf" uri="wss://uk.acme.example:7600/link"/>
  </treeConnectors>
</broker>
"""

MANY = " ".join(f'a{number}="1"' for number in range(60_000))


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text, "f")
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_examples_are_read() -> None:
    assert read('<broker name="hq"/>') == Site(name="hq")
    assert read(EXAMPLE) == Site(
        name="store-0042",
        tree="acme",
        site_broker=SiteBroker(uri="mqtt://localhost:1883"),
        tree_connectors=(TreeConnector(nodetype="leaf", uri="wss://uk.acme.example:7600/link"),),
    )


def test_order_space_and_case_of_quotes_do_not_matter() -> None:
    text = """\ufeff<?xml version='1.0' encoding='utf-8'?><?note this?>
      <broker xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
        xsi:noNamespaceSchemaLocation="sapwood.xsd" name='hq'>
        <children><child
            maxRoutes=" 5 "
            name = "a"/></children>
        <listener port="0"><addresses><address>
           ws://h
        </address></addresses></listener>
        <log/></broker>"""
    listener = Listener(port=0, addresses=("ws://h",))
    assert read(text) == Site(name="hq", children=(Child(name="a", max_routes=5),), listener=listener)


def test_every_mistake_is_listed_with_its_exact_place() -> None:
    text = """<broker nam="é" tree="ä"
   data="">
  <!-- ünï --><listener port="70000" adress="ö"
     allowAnonymous="1"/>
  <link keepAlive = '1x' backoffInitial="2m"/>
</broker>"""
    found = problems(text)
    assert [problem.split(": ")[0] for problem in found] == [
        "f:1:9",
        "f:1:23",
        "f:2:10",
        "f:3:31",
        "f:3:38",
        "f:4:22",
        "f:5:22",
        "f:5:26",
    ]
    assert found[0].endswith("'nam' is not a setting here; did you mean 'name'?")
    assert "listener.port: expected a whole number from 0 to 65535, found '70000'" in found[3]
    assert found[4].endswith("did you mean 'addresses'?")
    assert "link.keepAlive: expected a duration" in found[6]
    assert "'backoffInitial' is longer than 'backoffMax'" in found[7]


def test_the_place_is_right_after_lines_of_every_kind() -> None:
    assert problems('<broker\r\n\tname="é&amp;é"\r\n   log="x"/>')[1].startswith("f:3:4: 'log' is an element")
    assert problems("<broker name='a>b' x='1'/>")[1].startswith("f:1:20: 'x' is not a setting")


def test_a_value_that_stands_wrongly_is_told_where_it_belongs() -> None:
    text = '<broker listener="x"><name>hq</name><treeConnectors a="1">text<x/></treeConnectors></broker>'
    assert problems(text) == [
        "f:1:9: 'listener' is an element, not an attribute: write <listener> below",
        "f:1:22: 'name' is an attribute, not an element: write <broker name=\"…\">",
        "f:1:37: text 'text' in <treeConnectors> has no meaning here",
        "f:1:53: attribute 'a': expected <treeConnector> elements in <treeConnectors>",
        "f:1:63: <x>: expected <treeConnector> elements in <treeConnectors>",
    ]


def test_an_element_twice_is_refused_and_still_checked() -> None:
    found = problems('<broker name="hq"><log/>\n<log level="loud"/></broker>')
    assert found[0] == "f:2:1: 'log' stands here again, first in line 1"
    assert "expected debug, info, warning or error, found 'loud'" in found[1]


def test_an_inline_secret_is_refused_and_never_repeated() -> None:
    text = EXAMPLE.replace('nodetype="leaf"', 'nodetype="leaf" secret="hunter2"')
    (found,) = problems(text)
    assert found.startswith("f:4:36: 'secret': a secret never stands in a configuration file")
    assert "'secretEnv'" in found
    assert "hunter2" not in found


def test_a_root_with_a_connector_is_refused() -> None:
    (found,) = problems(EXAMPLE.replace('"leaf"', '"root"'))
    assert found.endswith("found 'root'; a root has no tree connector: leave the connector out")


def test_a_second_connector_is_told_to_be_a_further_way() -> None:
    one = '<treeConnector nodetype="leaf" uri="ws://h"/>'
    (found,) = problems(f'<broker name="a"><treeConnectors>{one}\n{one}</treeConnectors></broker>')
    assert found.startswith("f:2:1: expected at most 1 'treeConnector'")
    assert "go into 'uris' of the first" in found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "f:1:1", "not well-formed XML"),
        ("<broker", "f:1:1", "not well-formed XML"),
        ('<broker name="a">\n</brokr>', "f:2:3", "not well-formed XML: mismatched tag"),
        ('<broker name="a" name="b"/>', "f:1:18", "duplicate attribute"),
        ('<!DOCTYPE broker><broker name="a"/>', "f:1:1", "document type"),
        ('<!DOCTYPE b [<!ENTITY a "x">]><broker name="&a;"/>', "f:1:1", "document type"),
        ('<broker name="&a;"/>', "f:1:1", "undefined entity"),
        ('<site name="a"/>', "f:1:1", "<site>: expected the element <broker>"),
        ('<?xml version="1.0" encoding="latin-1"?><broker name="a"/>', "f:1:1", "encoding 'latin-1'"),
        ("<a>" * 20, "f:1:37", "deeper than 12"),
        (f"<broker>\n<log {MANY}/></broker>", "f:2:1", "<log> has more than 1000 attributes"),
    ],
)
def test_what_is_no_such_file_is_refused_with_its_place(text: str, place: str, message: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"{place}: ")
    assert message in found


def test_a_file_that_is_too_large_or_no_utf_8_is_refused() -> None:
    assert problems(b" " * (MAX_BYTES + 1)) == [
        f"f: the file has {MAX_BYTES + 1} bytes: expected at most {MAX_BYTES}"
    ]
    assert problems('<broker\n name="é"'.encode("latin-1")) == [
        "f:2:8: this byte is not UTF-8: save the file as UTF-8"
    ]
    assert "not UTF-8" in problems('<broker name="a"/>'.encode("utf-16"))[0]


def test_a_wrong_value_does_not_set_off_rules_that_look_at_it() -> None:
    text = """<broker name="a"><treeConnectors><treeConnector nodetype="laef" uri="nothing"/></treeConnectors>
      <children><child name="b c"/><child name="store-0042"/></children></broker>"""
    assert [problem.split(": ")[1] for problem in problems(text)] == [
        "treeConnectors[0].nodetype",
        "treeConnectors[0].uri",
        "children[0].name",
    ]


def test_places_are_right_in_one_long_line() -> None:
    line = "<broker name='é'>" + "<log/>" * 3 + "<é ö='1'/>" + "</broker>"
    assert [found.split(": ")[0] for found in problems(line)] == ["f:1:15", "f:1:24", "f:1:30", "f:1:36"]


def test_thousands_of_mistakes_are_counted_and_the_first_are_listed() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read("<broker name='a'>" + "<a/>" * 2000 + "</broker>")
    assert len(caught.value.problems) == 2000
    assert str(caught.value).endswith("and 1900 more")


def test_after_ten_thousand_mistakes_nobody_looks_further() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read("<broker name='a'>" + "<log level='x'/>" * 2 * MOST_MISTAKES + "</broker>")
    assert len(caught.value.problems) == MOST_MISTAKES
    assert "expected debug, info, warning or error" in str(caught.value)


def test_a_connector_may_stand_directly_in_the_broker_as_it_was_proposed() -> None:
    bare = read('<broker><treeConnector nodetype="branch" uri="ws://hq:7600"/></broker>')
    wrapped = "<treeConnectors><treeConnector nodetype='branch' uri='ws://hq:7600'/></treeConnectors>"
    assert bare == read(f"<broker>{wrapped}</broker>")
    assert bare.tree_connectors == (TreeConnector(nodetype="branch", uri="ws://hq:7600"),)


def test_a_bare_connector_is_checked_as_any_other() -> None:
    one = '<treeConnector nodetype="leaf" uri="ws://hq:7600"/>'
    assert problems(f"<broker>\n{one}\n{one}</broker>")[0].startswith(
        "f:3:1: expected at most 1 'treeConnector'"
    )
    assert problems(f"<broker>{one}\n<treeConnectors/></broker>") == [
        "f:2:1: 'treeConnectors' stands here again, first in line 1"
    ]
    (tcp,) = problems('<broker>\n <treeConnector nodetype="leaf" uri="tcp://hq:61616"/></broker>')
    assert tcp.startswith("f:2:38: treeConnectors[0].uri: 'tcp://hq:61616'")
    assert "write ws://HOST:7600/link" in tcp
    (wrong,) = problems('<broker><mesh><treeConnector nodetype="leaf" uri="ws://hq"/></mesh></broker>')
    assert "'treeConnector' is not a setting here" in wrong


@pytest.mark.parametrize(
    "text",
    [
        '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="york"/>',
        '<broker brokerName="york" dataDirectory="data"/>',
        '<beans xmlns="http://www.springframework.org/schema/beans"/>',
    ],
)
def test_activemqs_own_file_is_known(text: str) -> None:
    (found,) = problems(text)
    assert found.startswith("f:1:1: this is ActiveMQ's own file: `sapwood config convert FILE`")
