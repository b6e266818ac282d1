"""`sapwood node check`: an issuer of operators' tokens: the library is there, its keys can be had."""

import asyncio
from collections.abc import Iterator

from broker.cli.finding import SiteFinding
from config.errors import ConfigurationError
from config.model import Site
from sapwood.protocol.errors import SapwoodError


def check_issuer(site: Site) -> Iterator[SiteFinding]:
    """One that is away may be back tomorrow."""
    if site.oidc.issuer is None:
        return
    from bridges.tls import TlsError, TlsSettings, client_context
    from broker.entrance.policy import issuer_of

    try:
        issuer_of(site)
        client_context(TlsSettings(ca=site.oidc.ca))
    except (ConfigurationError, TlsError) as error:
        yield SiteFinding("issuer", "failed", str(error))
        return
    from broker.entrance.issuer_keys import fetch_keys

    try:
        keys = asyncio.run(fetch_keys(site.oidc))
    except SapwoodError as error:
        yield SiteFinding("issuer", "warning", str(error))
        return
    roles = ", ".join(f"{each.name} ({each.role})" for each in site.oidc.roles)
    yield SiteFinding("issuer", "ok", f"{site.oidc.issuer}: keys: {len(keys)}; roles of {roles}")
