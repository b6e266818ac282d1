"""`sapwood config acl`: from the parent's file to the lines for its brokers."""

import json
from pathlib import Path

import pytest

from broker.cli.acl import print_permissions
from broker.cli.errors import WRONG_USE, CommandError

BROKERS = """  listener:
    link_brokers:
      - {uri: "mqtt://localhost:1883", user: node-hq, secret_env: A}
      - {uri: "amqps://rabbit.example.com/stores"}
"""


def hq(folder: Path, extra: str = BROKERS) -> Path:
    file = folder / "hq.yaml"
    file.write_text(f"broker:\n  name: hq\n  tree: acme\n{extra}")
    return file


def test_each_broker_has_its_own_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = hq(tmp_path, BROKERS + "  children: [{name: york}]\n")
    print_permissions(file, [], dynamic_security=False, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "# mqtt://localhost:1883",
        "# children: the user's name is the child's",
        "pattern write sapwood/acme/link/%u/up/#",
        "pattern read sapwood/acme/link/%u/down",
        "# this node",
        "user node-hq",
        "topic read sapwood/acme/link/+/up/#",
        "topic write sapwood/acme/link/+/down",
        "topic readwrite sapwood/acme/link/parents",
        "# amqps://rabbit.example.com/stores",
        "# this node",
        "rabbitmqctl add_user hq",
        r"rabbitmqctl set_permissions -p stores hq '^sapwood\.acme\.link($|\.)'"
        r" '^amq\.default$|^sapwood\.acme\.link($|\.)' '^sapwood\.acme\.link($|\.)'",
        "# child york",
        "rabbitmqctl add_user york",
        r"rabbitmqctl set_permissions -p stores york '^sapwood\.acme\.link\.york\.down\.[0-9a-f]{16}$'"
        r" '^sapwood\.acme\.link$' '^sapwood\.acme\.link\.york\.down\.[0-9a-f]{16}$'",
        r"rabbitmqctl set_topic_permissions -p stores york sapwood.acme.link '^york\.up(\.knock)?$' '^$'",
    ]


def test_children_come_from_permits_and_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table").write_text("leeds hush\n")
    file = hq(tmp_path, BROKERS + "  children: [{name: york}]\n  children_secrets: table\n")
    print_permissions(file, ["bath"], dynamic_security=True, as_json=True)
    brokers = json.loads(capsys.readouterr().out)["brokers"]
    assert [broker["uri"] for broker in brokers] == [
        "mqtt://localhost:1883",
        "amqps://rabbit.example.com/stores",
    ]
    for broker in brokers:
        lines = [line for line in broker["lines"] if line.startswith("# child")]
        assert lines == ["# child bath", "# child leeds", "# child york"]
    assert "hush" not in str(brokers)


def test_what_cannot_be_printed_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        CommandError, match=r"no broker at which children may dial: .* link_brokers"
    ) as refused:
        print_permissions(hq(tmp_path, ""), [], dynamic_security=False, as_json=False)
    assert refused.value.exit_code == WRONG_USE
    with pytest.raises(CommandError, match="'hq' has no permits: give their names with --child"):
        print_permissions(hq(tmp_path), [], dynamic_security=False, as_json=False)
