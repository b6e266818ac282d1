"""Which bridge a site's broker gets, and what is said where its library is not installed."""

from pathlib import Path

import pytest

from bridges.site_brokers import registry
from bridges.site_brokers.base import Setup, SiteBrokerRefused
from config.site_brokers import SiteBroker


def setup(uri: str, folder: Path) -> Setup:
    return Setup(
        tree="acme",
        node="york",
        store="1",
        directory=folder,
        settings=SiteBroker(uri=uri),
        password=None,
        tls=None,
        timeout=1.0,
        max_message=1000,
        max_consumers=10,
    )


def test_the_scheme_chooses_the_bridge(tmp_path: Path) -> None:
    made = [repr(registry.make_bridge(setup(uri, tmp_path))) for uri in ("mqtt://hq", "amqps://hq")]
    assert made == ["<MosquittoBridge to mqtt://hq>", "<RabbitBridge amqps://hq None>"]


def test_a_library_that_is_not_there_is_named_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(name: str) -> object:
        assert name == "bridges.site_brokers.rabbitmq"
        raise ModuleNotFoundError(name="pika")

    monkeypatch.setattr(registry, "import_module", lacks)
    with pytest.raises(SiteBrokerRefused, match=r"amqp://hq needs pika: pip install 'sapwood-node\[amqp\]'"):
        registry.make_bridge(setup("amqp://hq", tmp_path))
