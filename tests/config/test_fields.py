from dataclasses import FrozenInstanceError

import pytest

from config.fields import Scalar, camel, every_setting, settings
from config.model import Site, TreeConnector


def test_a_setting_is_spelled_in_camel_case_in_xml() -> None:
    assert [camel(name) for name in ("uri", "secret_env", "max_routes_per_link")] == [
        "uri",
        "secretEnv",
        "maxRoutesPerLink",
    ]


def test_only_what_cannot_be_guessed_is_required() -> None:
    required = [
        ".".join(path) for path, one in every_setting(Site) if isinstance(one, Scalar) and one.required
    ]
    assert required == [
        "site_broker.exchanges.name",
        "site_broker.exchanges.prefix",
        "site_broker.rules.pattern",
        "tree_connectors.uri",
        "mesh.cores.name",
        "mesh.cores.uri",
        "listener.link_brokers.uri",
        "children.name",
        "accounts.name",
        "operators.name",
        "operators.token_hash",
        "oidc.roles.name",
        "forwards.name",
        "forwards.to",
        "folders.name",
        "folders.path",
        "delivery.destinations.pattern",
        "alarms.rules.name",
        "alarms.rules.metric",
    ]


def test_every_default_and_example_is_a_right_value() -> None:
    for path, one in every_setting(Site):
        if isinstance(one, Scalar):
            for value in (one.default, one.example):
                parsed = one.kind.parse(value) if isinstance(value, str) else value
                assert parsed is None or one.kind.check(parsed) == "", path


def test_no_two_settings_of_a_section_share_a_spelling() -> None:
    for _, one in every_setting(Site):
        if not isinstance(one, Scalar) and hasattr(one, "section"):
            names = [camel(inner.name).lower() for inner in settings(one.section)]
            assert len(names) == len(set(names))


def test_a_section_is_frozen_and_slotted() -> None:
    connector = TreeConnector(nodetype="leaf", uri="ws://hq")
    with pytest.raises(FrozenInstanceError):
        connector.uri = "ws://b"  # type: ignore[misc]
    assert not hasattr(connector, "__dict__")
