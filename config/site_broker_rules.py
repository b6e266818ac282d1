"""Combinations in the section of the site's broker that cannot be."""

from collections.abc import Iterator

from config.contradictions import Contradiction, needless_tls
from config.fields import Path, Spelling
from config.model import ClientTls, Site
from config.uris import EMBEDDED, address


def site_broker(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    broker, path = site.site_broker, ("site_broker",)
    uri: tuple[Path, ...] = ((*path, "uri"),)
    if broker.uri == EMBEDDED:
        for name in ("user", "secret_env", "secret_file"):
            if getattr(broker, name):
                message = f"{spell(name)!r} has no use with the embedded broker: leave it out"
                yield Contradiction((*path, name), message, uri)
        lists = ("rules", "consumers", "sources", "exchanges")
        for name, usual in (("tls", ClientTls()), *((name, ()) for name in lists)):
            if getattr(broker, name) != usual:
                message = f"{spell(name)!r} has no use with the embedded broker: leave it out"
                yield Contradiction((*path, name), message, uri)
        return
    if site.mqtt.port is not None:
        message = "this site has a broker: its MQTT applications connect to that; leave 'mqtt' out"
        yield Contradiction(("mqtt", "port"), message, uri)
    for i, rule in enumerate(broker.rules):
        for name in ("local_prefix", "tree_prefix"):
            prefix = getattr(rule, name)
            if prefix and rule.pattern.startswith("topic:") and not prefix.endswith("/"):
                message = f"{prefix!r} begins topics: expected whole levels, so a '/' at its end"
                yield Contradiction((*path, "rules", i, name), message, ((*path, "rules", i, "pattern"),))
    yield from _exchanges(site)
    yield from needless_tls(path, broker.tls, [address(broker.uri)], spell)
    if broker.user and not (broker.secret_env or broker.secret_file):
        message = f"{spell('user')!r} needs {spell('secret_env')!r} or {spell('secret_file')!r} beside it"
        yield Contradiction((*path, "user"), message, ((*path, "secret_env"), (*path, "secret_file")))


def _exchanges(site: Site) -> Iterator[Contradiction]:
    """Each topic is of one exchange."""
    broker, path = site.site_broker, ("site_broker", "exchanges")
    names: dict[str, Path] = {broker.exchange: ("site_broker", "exchange")}
    prefixes: dict[str, Path] = {}
    for i, each in enumerate(broker.exchanges):
        name_at: Path = (*path, i, "name")
        if each.name in names:
            yield Contradiction(name_at, f"exchange {each.name!r} is listed twice", (names[each.name],))
        names.setdefault(each.name, name_at)
        at: Path = (*path, i, "prefix")
        if not each.prefix.endswith("/"):
            message = f"{each.prefix!r} begins topics: expected whole levels, so a '/' at its end"
            yield Contradiction(at, message)
        for other, there in prefixes.items():
            if each.prefix.startswith(other) or other.startswith(each.prefix):
                message = f"{each.prefix!r} and {other!r} have topics in common: a topic is of one exchange"
                yield Contradiction(at, message, (there,))
        prefixes.setdefault(each.prefix, at)
