"""Alarms that cannot be: without a threshold or with two, on figures that are not kept, told in the open."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from config.alarms import OF_ONE_QUEUE
from config.contradictions import Contradiction
from config.fields import Path, Spelling
from config.model import Site
from config.uris import is_loopback


def alarms(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    first: dict[str, Path] = {}
    for i, rule in enumerate(site.alarms.rules):
        at: Path = ("alarms", "rules", i)
        if rule.name in first:
            yield Contradiction((*at, "name"), f"alarm {rule.name!r} is listed twice", (first[rule.name],))
        first.setdefault(rule.name, (*at, "name"))
        if (rule.above is None) == (rule.below is None):
            wrong = "name" if rule.above is None else "below"
            yield Contradiction(
                (*at, wrong),
                f"alarm {rule.name!r}: expected either {spell('above')!r} or {spell('below')!r}",
                ((*at, "above"), (*at, "below")),
            )
        if rule.queue is not None and rule.metric not in OF_ONE_QUEUE:
            yield Contradiction(
                (*at, "queue"),
                f"alarm {rule.name!r}: {rule.metric} is of the whole node; of one queue there are"
                f" {' and '.join(OF_ONE_QUEUE)}",
                ((*at, "metric"),),
            )
    if not site.history.enabled and (site.alarms.rules or site.alarms.webhook.is_named):
        message = f"alarms look at samples, and this file takes none: leave {spell('enabled')!r} out"
        yield Contradiction(("history", "enabled"), message, (("alarms",),))
    yield from _webhook(site, spell)


def _webhook(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    webhook = site.alarms.webhook
    at: Path = ("alarms", "webhook")
    given = [name for name in ("uri", "uri_env", "uri_file") if getattr(webhook, name)]
    if len(given) > 1:
        names = " and ".join(repr(spell(name)) for name in given)
        related = tuple((*at, name) for name in given[:-1])
        yield Contradiction((*at, given[-1]), f"{names} exclude each other: keep one", related)
    if not given:
        for name in ("token_env", "token_file", "key_env", "key_file", "ca"):
            if getattr(webhook, name):
                message = f"a webhook needs an address: write {spell('uri')!r} or {spell('uri_file')!r}"
                yield Contradiction((*at, name), message, ((*at, "uri"),))
    if webhook.uri is not None and (why := why_not_told(webhook.uri)):
        yield Contradiction((*at, "uri"), why)


def why_not_told(uri: str) -> str:
    """Why alarms do not go to an address; '' = they may. Never repeats the address, which may be a secret."""
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "the webhook's address is no URI"
    if parts.username or parts.password:
        return "the webhook's address holds a user or a password: write `token_file` instead"
    if parts.scheme == "https" and host:
        return ""
    if parts.scheme == "http" and is_loopback(host):
        return ""
    return "the webhook's address must be https://…; http:// only to this machine, since others could read it"
