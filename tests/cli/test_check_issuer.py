"""`sapwood node check` of an issuer: its library, its keys, and whom it lets in."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from token_issuer import SITE, IssuerProcess, Signer

from broker.cli.check_issuer import check_issuer
from broker.cli.finding import SiteFinding
from config.model import Site


def found(url: str) -> SiteFinding:
    (one,) = check_issuer(Site(oidc=replace(SITE, issuer=url)))
    return one


def test_a_site_without_one_has_nothing_to_say() -> None:
    assert not list(check_issuer(Site()))


def test_an_issuer_with_keys_is_well_and_one_that_is_away_a_warning(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    issuer = IssuerProcess(tmp_path, unused_tcp_port)
    issuer.publish(Signer())
    assert (found(issuer.url).state, "cannot be reached" in found(issuer.url).text) == ("warning", True)
    issuer.start()
    try:
        one = found(issuer.url)
    finally:
        issuer.stop()
    assert one.state == "ok"
    assert "keys: 1; roles of till-staff (viewer), chain operators (operator)" in one.text


def test_authorities_that_cannot_be_read_fail_since_nobody_would_come_in_tomorrow_either(
    tmp_path: Path,
) -> None:
    (one,) = check_issuer(Site(oidc=replace(SITE, ca=tmp_path / "gone.pem")))
    assert (one.state, "gone.pem cannot be read" in one.text) == ("failed", True)


def test_a_missing_library_fails_and_says_which_extra_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("issuer", "issuer_keys", "id_tokens"):
        monkeypatch.delitem(sys.modules, f"broker.entrance.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "jwt", None)
    one = found("https://login.example")
    assert one.state == "failed"
    assert "'jwt': pip install 'sapwood-node[oidc]'" in one.text
