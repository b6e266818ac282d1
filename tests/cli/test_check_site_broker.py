"""`sapwood node check` asks the site's broker what it lacks, and prints the lines that end that."""

import json
from pathlib import Path

import pytest
from rabbitmq_server import RabbitServer

from broker.cli.check import check_file, examine
from broker.cli.errors import FAILED, WELL


def site(folder: Path, uri: str, **settings: str | list[str]) -> Path:
    file = folder / "york.json.yaml"
    listener = {"port": 0}
    broker = {"name": "york", "listener": listener, "site_broker": {"uri": uri, **settings}}
    file.write_text(json.dumps({"broker": broker}))
    return file


def found(file: Path) -> tuple[list[tuple[str, str, tuple[str, ...]]], int]:
    findings, exit_code = examine(file)
    return [(one.state, one.text, one.lines) for one in findings if one.subject == "site broker"], exit_code


def test_a_rabbitmq_that_has_all(tmp_path: Path, rabbitmq: RabbitServer, vhost: str) -> None:
    uri = rabbitmq.uri(vhost)
    said, exit_code = found(site(tmp_path, uri, management=rabbitmq.management_uri))
    assert said == [("ok", f"{uri} has all that the bridge needs", ())]
    assert exit_code == WELL


@pytest.mark.parametrize(
    ("sources", "said"),
    [([], "no topic (none is"), (["queue:a", "topic:b/#"], "the topics under sources (topic:b/#)")],
)
def test_it_is_said_of_which_topics_a_rabbitmq_loses_what_is_retained(
    tmp_path: Path, rabbitmq: RabbitServer, vhost: str, sources: list[str], said: str
) -> None:
    file = site(tmp_path, rabbitmq.uri(vhost), management=rabbitmq.management_uri, sources=sources)
    (text,) = [one.text for one in examine(file)[0] if one.subject == "retained"]
    assert said in text


def test_what_is_lacking_is_printed_with_lines_to_run(
    tmp_path: Path, rabbitmq: RabbitServer, vhost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site(tmp_path, rabbitmq.uri(vhost), management=rabbitmq.management_uri, exchange="chain")
    assert check_file(file, as_json=False) == FAILED
    line = f"rabbitmqadmin -V {vhost} declare exchange name=chain type=topic durable=true"
    assert f"\n  {line}\n" in capsys.readouterr().out
    assert check_file(file, as_json=True) == FAILED
    told = json.loads(capsys.readouterr().out)["findings"]
    assert [line] in [one["lines"] for one in told]


def test_a_broker_that_is_away_may_be_back(tmp_path: Path) -> None:
    ((state, text, _),), exit_code = found(site(tmp_path, "amqp://127.0.0.1:9"))
    assert (state, exit_code) == ("warning", WELL)
    assert "127.0.0.1:9 cannot be reached" in text


def test_a_broker_that_does_not_let_the_node_in_fails(
    tmp_path: Path, rabbitmq: RabbitServer, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "wrong")
    file = site(tmp_path, rabbitmq.uri(vhost), user="guest", secret_env="PASSWORD")
    ((state, text, _),), exit_code = found(file)
    assert (state, exit_code) == ("failed", FAILED)
    assert "refuses user 'guest'" in text


def test_the_embedded_broker_needs_no_question(tmp_path: Path) -> None:
    assert found(site(tmp_path, "embedded"))[0] == []
