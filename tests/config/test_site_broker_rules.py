"""A site's broker that cannot be."""

import pytest

from config.errors import ConfigurationError
from config.model import Site, SiteBroker, SiteExchange, SiteRule
from config.rules import check

SALES = SiteExchange(name="sales", prefix="sales/")


def broker(*exchanges: SiteExchange, uri: str = "amqp://localhost", **rest: object) -> Site:
    return Site(name="york", site_broker=SiteBroker(uri=uri, exchanges=exchanges, **rest))  # type: ignore[arg-type]


def test_exchanges_whose_topics_are_apart_are_right() -> None:
    assert check(broker(SALES, SiteExchange(name="stock", prefix="sites/stock/")))


@pytest.mark.parametrize(
    ("site", "says"),
    [
        (broker(SALES, SiteExchange(name="sales", prefix="other/")), "exchange 'sales' is listed twice"),
        (broker(SALES, exchange="sales"), "exchange 'sales' is listed twice"),
        (broker(SiteExchange(name="sales", prefix="sales")), "'sales' begins topics: expected whole levels"),
        (broker(SALES, SiteExchange(name="tea", prefix="sales/tea/")), "have topics in common"),
        (broker(SALES, SiteExchange(name="tea", prefix="sales/")), "have topics in common"),
        (broker(SALES, uri="embedded"), "'exchanges' has no use with the embedded broker"),
        (
            broker(rules=(SiteRule(pattern="topic:#", tree_prefix="york"),)),
            "'york' begins topics: expected whole levels",
        ),
    ],
)
def test_what_cannot_be_is_a_mistake(site: Site, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check(site)
