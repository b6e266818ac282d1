"""Operators and accounts that cannot be are refused by name."""

from dataclasses import replace

import pytest

from config.application_rules import applications
from config.fields import YAML
from config.model import Site
from config.oidc import Oidc, OidcRole
from config.operators import Operator

ANNA = Operator(name="anna", token_hash="sha256$" + "a" * 43)
BEN = Operator(name="ben", token_hash="sha256$" + "b" * 43)


def found(*operators: Operator) -> list[tuple[object, str]]:
    return [(each.path, each.message) for each in applications(Site(operators=operators), YAML)]


def test_operators_with_a_name_and_a_token_each_are_right() -> None:
    assert not found(ANNA, BEN)


def test_one_token_is_not_of_two() -> None:
    """The trail would show one of them for both."""
    ((path, message),) = found(ANNA, replace(BEN, token_hash=ANNA.token_hash))
    assert path == ("operators", 1, "token_hash")
    assert message.endswith("is listed twice")


def test_a_name_stands_once() -> None:
    assert found(ANNA, replace(BEN, name="anna")) == [
        (("operators", 1, "name"), "operator 'anna' is listed twice")
    ]


@pytest.mark.parametrize("name", ["token", "local"])
def test_no_operator_has_a_name_that_the_trail_has_for_somebody_else(name: str) -> None:
    ((path, message),) = found(replace(ANNA, name=name))
    assert path == ("operators", 0, "name")
    assert "in the trail of changes" in message


ISSUER = Oidc(issuer="https://x.example/r", audience="a", roles=(OidcRole(name="staff"),))


@pytest.mark.parametrize(
    ("oidc", "path", "text"),
    [
        (replace(ISSUER, issuer=None, roles=()), ("oidc", "audience"), "needs 'issuer' beside it"),
        (Oidc(claim="realm_access.roles"), ("oidc", "claim"), "needs 'issuer' beside it"),
        (replace(ISSUER, audience=None), ("oidc", "issuer"), "needs 'audience' beside it"),
        (replace(ISSUER, roles=()), ("oidc", "issuer"), "lets in nobody"),
        (replace(ISSUER, issuer="http://x.example"), ("oidc", "issuer"), "write https://"),
        (replace(ISSUER, roles=ISSUER.roles * 2), ("oidc", "roles", 1, "name"), "is listed twice"),
    ],
)
def test_an_issuer_that_cannot_be_is_refused(oidc: Oidc, path: object, text: str) -> None:
    ((found, message),) = [(each.path, each.message) for each in applications(Site(oidc=oidc), YAML)]
    assert (found, text in message) == (path, True), message


@pytest.mark.parametrize("issuer", ["https://x.example", "http://localhost:8080/r", "http://[::1]:1"])
def test_an_issuer_is_reached_over_tls_or_on_this_machine(issuer: str) -> None:
    assert not list(applications(Site(oidc=replace(ISSUER, issuer=issuer)), YAML))
