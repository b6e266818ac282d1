"""Combinations that cannot be, each value being right by itself.

Law: a rule names the setting to change and all settings that it looked at; it says what would be right.
"""

from collections.abc import Collection, Iterator
from typing import Any, assert_never

from config.alarm_rules import alarms
from config.application_rules import applications
from config.channel_rules import folders, forwards
from config.contradictions import Contradiction, needless_path, needless_tls
from config.enrolment import Enrolment
from config.errors import ConfigurationError, Problem
from config.fields import YAML, Part, Parts, Path, Scalar, Spelling, Values, settings
from config.line_rules import lines
from config.mesh_rules import mesh
from config.model import ClientTls, ServerTls, Site
from config.permit_rules import permits
from config.schemes import DIRECT, LOOKED_UP
from config.site_broker_rules import site_broker
from config.uris import DOMAIN, LAN, Address, address, is_address
from sapwood.protocol.names import is_incarnation

_LONGEST_PATH = 200


def check(site: Site, *, what: str = "") -> Site:
    """Return a site made by a program if it could stand in a file, else raise `ConfigurationError`."""
    wrong = list(_wrong_values(site, ()))
    wrong += [] if wrong else contradictions(site, YAML)
    if wrong:
        raise ConfigurationError(Problem(f"{_dotted(item.path)}: {item.message}", what) for item in wrong)
    return site


def contradictions(site: Site, spelling: Spelling) -> list[Contradiction]:
    """Return all combinations of `site` that cannot be, worded in the names of `spelling`."""
    rules = (
        _nodetype,
        _name,
        permits,
        forwards,
        folders,
        applications,
        mesh,
        _secrets,
        _tls,
        _enrolment,
        site_broker,
        _ways,
        lines,
        _way_through_broker,
        _link_brokers,
        _name_servers,
        _lan,
        _registration,
        _times,
        _sizes,
        _destinations,
        alarms,
    )
    return [found for rule in rules for found in rule(site, spelling)]


def secret_advice(key: str, known: Collection[str], spelling: Spelling) -> str:
    """What to say when a file holds a secret itself; never repeats it."""
    variable, file = spelling(f"{_snake(key)}_env"), spelling(f"{_snake(key)}_file")
    if variable not in known:
        return ""
    return (
        f"{key!r}: a secret never stands in a configuration file; put it into an environment variable and "
        f"name that in {variable!r}, or into a file and name that in {file!r}"
    )


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _dotted(path: Path) -> str:
    return (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".") or "site"
    )


def _wrong_values(section: Any, path: Path) -> Iterator[Contradiction]:
    for setting in settings(type(section)):
        here, given = (*path, setting.name), getattr(section, setting.name)
        match setting:
            case Scalar(kind=kind, default=default, required=required):
                if required or given != default:
                    fault = kind.check(given)
                    yield from [Contradiction(here, fault)] if fault else []
            case Values(kind=kind):
                faults = (((*here, i), kind.check(item)) for i, item in enumerate(given))
                yield from (Contradiction(where, fault) for where, fault in faults if fault)
            case Part(default=default):
                yield from _wrong_values(given, here) if given != default else ()
            case Parts(maximum=maximum):
                if maximum is not None and len(given) > maximum:
                    yield Contradiction(here, f"expected at most {maximum}")
                for i, item in enumerate(given):
                    yield from _wrong_values(item, (*here, i))
            case _:
                assert_never(setting)


def _nodetype(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    scheme, nodetype = spell("scheme"), spell("nodetype")
    for i, connector in enumerate(site.tree_connectors):
        path: Path = ("tree_connectors", i, "nodetype")
        if connector.nodetype and site.scheme:
            yield Contradiction(
                path,
                f"{nodetype!r} and {scheme!r} exclude each other: keep {nodetype!r} for leaf, branch "
                f"and root, or {scheme!r} for core and satellite",
                (("scheme",),),
            )
        elif not connector.nodetype and not site.scheme:
            yield Contradiction(path, f"{nodetype!r} is missing: expected leaf or branch", (("scheme",),))
        elif site.scheme == "core":
            message = f"a core has no parent: list the other cores in {spell('mesh')!r} instead"
            yield Contradiction(("tree_connectors", i), message, (("scheme",),))


def _name(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    if site.name and is_incarnation(site.name.lower()):
        yield Contradiction(
            ("name",),
            f"{site.name!r} is a UUID, which means one incarnation of a node: name it otherwise",
        )


def _pairs(site: Site) -> Iterator[tuple[Path, Any, str]]:
    """All places where a secret can be named: path of the section, the section, the secret's name."""
    yield ("site_broker",), site.site_broker, "secret"
    yield ("http",), site.http, "token"
    yield ("http",), site.http, "session_secret"
    yield ("registration",), site.registration, "key"
    yield ("mesh",), site.mesh, "secret"
    yield ("alarms", "webhook"), site.alarms.webhook, "token"
    yield ("alarms", "webhook"), site.alarms.webhook, "key"
    for i, connector in enumerate(site.tree_connectors):
        yield ("tree_connectors", i), connector, "secret"
        yield ("tree_connectors", i), connector, "password"
    for i, broker in enumerate(site.listener.link_brokers):
        yield ("listener", "link_brokers", i), broker, "secret"
    for i, child in enumerate(site.children):
        yield ("children", i), child, "secret"
    for i, account in enumerate(site.accounts):
        yield ("accounts", i), account, "password"


def _secrets(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    for path, section, name in _pairs(site):
        variable, file = f"{name}_env", f"{name}_file"
        if getattr(section, variable) and getattr(section, file):
            yield Contradiction(
                (*path, file),
                f"{spell(variable)!r} and {spell(file)!r} exclude each other: keep one",
                ((*path, variable),),
            )


def _tls(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    ends: list[tuple[Path, ClientTls | ServerTls]] = [
        (("site_broker", "tls"), site.site_broker.tls),
        (("listener", "tls"), site.listener.tls),
        (("mesh", "tls"), site.mesh.tls),
    ]
    ends += [(("tree_connectors", i, "tls"), one.tls) for i, one in enumerate(site.tree_connectors)]
    brokers = site.listener.link_brokers
    ends += [(("listener", "link_brokers", i, "tls"), one.tls) for i, one in enumerate(brokers)]
    for path, tls in ends:
        for given, absent in (("certificate", "key"), ("key", "certificate")):
            if getattr(tls, given) and not getattr(tls, absent):
                yield Contradiction(
                    (*path, given),
                    f"{spell(given)!r} needs {spell(absent)!r} beside it",
                    ((*path, absent),),
                )
    yield from _tls_of_listener(site, spell)
    if site.mesh.cores:
        ways = [address(uri) for core in site.mesh.cores for uri in core.ways]
        yield from needless_tls(("mesh",), site.mesh.tls, ways, spell, (("mesh", "cores"),))
    for i, connector in enumerate(site.tree_connectors):
        ways = [address(uri) for uri in connector.ways]
        yield from needless_tls(("tree_connectors", i), connector.tls, ways, spell)


def _tls_of_listener(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    tls, path = site.listener.tls, ("listener", "tls", "certificate")
    if tls.client_ca and not tls.certificate:
        message = f"{spell('client_ca')!r} needs {spell('certificate')!r} and {spell('key')!r} beside it"
        yield Contradiction(("listener", "tls", "client_ca"), message, (path,))
    announced = [("listener", "public_uri")] if site.listener.public_uri else []
    for where in (*announced, *(("listener", "addresses", i) for i in range(len(site.listener.addresses)))):
        uri = site.listener.public_uri if where[1] == "public_uri" else site.listener.addresses[int(where[2])]
        certified = tls.certificate or site.enrolment.authority
        if certified and uri and address(uri).direct and not address(uri).tls:
            message = f"the port has a certificate and speaks TLS only: write {DIRECT.tls_scheme}://"
            yield Contradiction(where, message, (path, ("listener", "addresses")))


def _enrolment(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    path = ("enrolment", "authority")
    for name in ("lifetime", "grace") if site.enrolment.authority is None else ():
        if getattr(site.enrolment, name) != getattr(Enrolment(), name):
            message = f"{spell(name)!r} needs {spell('authority')!r} beside it"
            yield Contradiction(("enrolment", name), message, (path,))
    if site.enrolment.authority and site.role == "leaf":
        advice = f"a leaf has no children: leave this out, or write {spell('nodetype')} branch"
        yield Contradiction(path, advice, (("tree_connectors",), ("tree_connectors", 0, "nodetype")))
    given = [name for name in ("certificate", "key", "client_ca") if getattr(site.listener.tls, name)]
    if site.enrolment.authority and given:
        message = f"the port has a certificate of {spell('authority')!r}: leave 'tls' out"
        yield Contradiction(("listener", "tls", given[0]), message, (path,))
    for i, connector in enumerate(site.tree_connectors):
        tls, where = connector.tls, ("tree_connectors", i)
        if connector.renew and not (tls.ca and tls.certificate and tls.key):
            message = f"{spell('renew')!r} needs a 'certificate', a 'key' and a 'ca' in 'tls'"
            yield Contradiction((*where, "renew"), message, ((*where, "tls"),))
        if connector.renew and not any(address(uri).reaches_a_port for uri in connector.ways):
            secure = f"{DIRECT.tls_scheme}:// or {LOOKED_UP}://"
            message = f"{spell('renew')!r} asks the parent's port: give a way with {secure}"
            yield Contradiction((*where, "renew"), message, ((*where, "uri"), (*where, "uris")))


def _ways(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    own = {address(uri) for uri in site.listener.announced}
    for i, connector in enumerate(site.tree_connectors):
        seen: set[Address] = set()
        for j, uri in enumerate(connector.ways):
            path: Path = ("tree_connectors", i, "uris", j - 1) if j else ("tree_connectors", i, "uri")
            way = address(uri)
            whole: tuple[Path, ...] = (("tree_connectors", i, "uris"), ("tree_connectors", i, "uri"))
            if way in seen:
                yield Contradiction(path, f"{uri!r} is listed twice", whole)
            if way in own:
                yield Contradiction(path, f"{uri!r} is this node's own address: write its parent's", whole)
            seen.add(way)


def _way_through_broker(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    """What belongs to a broker has a broker, and what MQTT has no room for is not said to it."""
    for i, connector in enumerate(site.tree_connectors):
        path: Path = ("tree_connectors", i)
        uris: tuple[Path, ...] = ((*path, "uri"), (*path, "uris"))
        ways = [address(uri) for uri in connector.ways]
        for j, way in enumerate(ways):
            where: Path = (*path, "uris", j - 1) if j else (*path, "uri")
            yield from needless_path(where, way)
        given = [name for name in ("user", "password_env", "password_file") if getattr(connector, name)]
        if given and not any(way.brokered or way.looked_up for way in ways):
            message = (
                f"{spell(given[0])!r} is for the parent's broker: it has no use with {ways[0].scheme}://, "
                f"where {spell('secret_env')!r} or {spell('secret_file')!r} proves this node"
            )
            yield Contradiction((*path, given[0]), message, uris)
        elif given:
            yield from _login(path, connector.user, given, "password", spell)


def _link_brokers(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    section: Path = ("listener", "link_brokers")
    brokers = site.listener.link_brokers
    if brokers and site.role == "leaf":
        advice = f"a leaf has no children: leave this out, or write {spell('nodetype')} branch"
        yield Contradiction(section, advice, (("tree_connectors",), ("tree_connectors", 0, "nodetype")))
    seen: dict[Address, Path] = {}
    for i, broker in enumerate(brokers):
        path: Path = (*section, i)
        place = address(broker.uri)
        if place in seen:
            yield Contradiction((*path, "uri"), f"{broker.uri!r} is listed twice", (seen[place],))
        seen.setdefault(place, (*path, "uri"))
        yield from needless_path((*path, "uri"), place)
        yield from needless_tls(path, broker.tls, [place], spell)
        given = [name for name in ("user", "secret_env", "secret_file") if getattr(broker, name)]
        yield from _login(path, broker.user, given, "secret", spell) if given else ()


def _name_servers(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    for i, connector in enumerate(site.tree_connectors):
        if connector.name_servers and not any(address(uri).looked_up for uri in connector.ways):
            path: Path = ("tree_connectors", i)
            message = f"{spell('name_servers')!r} has no use without srv://: leave it out"
            yield Contradiction((*path, "name_servers"), message, ((*path, "uri"), (*path, "uris")))


def _lan(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    """Whoever answers by multicast may be anybody: it has to prove itself, so a parent needs a proof.

    A certificate of an authority proves one of many names; only where a node has joined by invitation is it
    the parent's, for that authority gives its children none of a server.
    """
    for i, connector in enumerate(site.tree_connectors):
        path: Path = ("tree_connectors", i)
        proves = connector.secret_env or connector.secret_file or connector.renew
        if LAN in connector.ways and not proves:
            message = (
                f"anybody on the same network can answer: {spell('secret_env')!r} or "
                f"{spell('secret_file')!r} beside it lets the parent prove its name; without a secret this "
                f"node joins by invitation, which writes {spell('renew')!r}"
            )
            where = (*path, "discover") if connector.discover else (*path, "uri")
            looked_at = ((*path, "secret_env"), (*path, "secret_file"), (*path, "renew"))
            yield Contradiction(where, message, looked_at)
    if not site.listener.discoverable:
        return
    section: Path = ("listener", "discoverable")
    if site.role == "leaf":
        advice = f"a leaf has no children: leave this out, or write {spell('nodetype')} branch"
        yield Contradiction(section, advice, (("tree_connectors", 0, "nodetype"),))
        return
    secrets = site.children_secrets or any(child.secret_env or child.secret_file for child in site.children)
    if not (secrets or site.enrolment.authority):
        message = (
            "whoever finds this node has to know that it is the parent: give its children secrets "
            f"({spell('children_secrets')!r}, {spell('secret_file')!r}), or invite them "
            f"({spell('authority')!r})"
        )
        looked_at = (("children_secrets",), ("children",), ("enrolment", "authority"))
        yield Contradiction(section, message, looked_at)


def _registration(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    """All that an update needs, or nothing; and addresses that an SRV record can name."""
    section: Path = ("registration",)
    given, domain = site.registration, (*section, "domain")
    if not given.domain:
        for name in ("zone", "server", "key_name", "key_env", "key_file"):
            if getattr(given, name):
                yield Contradiction(
                    (*section, name), f"{spell(name)!r} needs {spell('domain')!r} beside it", (domain,)
                )
        return
    if site.role == "leaf":
        advice = f"a leaf has no children: leave this out, or write {spell('nodetype')} branch"
        yield Contradiction(domain, advice, (("tree_connectors",), ("tree_connectors", 0, "nodetype")))
    for names in (("server",), ("key_name",), ("key_env", "key_file")):
        if not any(getattr(given, name) for name in names):
            needs = " or ".join(repr(spell(name)) for name in names)
            yield Contradiction(domain, f"{spell('domain')!r} needs {needs} beside it")
    zone = given.zone or given.domain
    if not f".{given.domain}".lower().endswith(f".{zone}".lower()):
        yield Contradiction((*section, "zone"), f"{given.domain!r} does not lie in {zone!r}", (domain,))
    if not site.listener.public_uri:
        message = f"what is registered is the listener's {spell('public_uri')!r}: give it"
        yield Contradiction(domain, message, (("listener", "public_uri"),))
    yield from _registered(site)


def _registered(site: Site) -> Iterator[Contradiction]:
    where: list[Path] = [("listener", "public_uri")] if site.listener.public_uri else []
    where += [("listener", "addresses", i) for i in range(len(site.listener.addresses))]
    for path, uri in zip(where, site.listener.announced, strict=True):
        way = address(uri)
        looked_at: tuple[Path, ...] = (("registration", "domain"), ("listener", "addresses"))
        if is_address(way.host):
            message = f"{uri!r}: a record in DNS (SRV) names a host, never an IP address; write a name"
            yield Contradiction(path, message, looked_at)
        elif DOMAIN.check(way.host):
            yield Contradiction(path, f"{way.host!r} is no name that DNS can hold", looked_at)
        elif len(way.path) > _LONGEST_PATH:
            message = f"{uri[:40]!r}…: a path in DNS has at most {_LONGEST_PATH} characters"
            yield Contradiction(path, message, looked_at)


def _login(
    path: Path, user: str | None, given: list[str], secret: str, spell: Spelling
) -> Iterator[Contradiction]:
    """A user and its password stand together."""
    looked_at = tuple((*path, name) for name in ("user", f"{secret}_env", f"{secret}_file"))
    if not user:
        yield Contradiction(
            (*path, given[0]), f"{spell(given[0])!r} needs {spell('user')!r} beside it", looked_at
        )
    elif given == ["user"]:
        variable, file = spell(f"{secret}_env"), spell(f"{secret}_file")
        message = f"{spell('user')!r} needs {variable!r} or {file!r} beside it"
        yield Contradiction((*path, "user"), message, looked_at)


def _times(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    if site.link.backoff_initial > site.link.backoff_max:
        message = f"{spell('backoff_initial')!r} is longer than {spell('backoff_max')!r}"
        yield Contradiction(("link", "backoff_initial"), message, (("link", "backoff_max"),))


def _sizes(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    spool, whole = site.limits.spool, ("limits", "spool", "max_bytes")
    for name in ("max_bytes_up", "max_bytes_down", "max_bytes_rerouted"):
        if (getattr(spool, name) or 0) > spool.max_bytes:
            message = (
                f"{spell(name)!r} is more than {spell('max_bytes')!r}, which bounds all waiting messages"
            )
            yield Contradiction(("limits", "spool", name), message, (whole,))


def _destinations(site: Site, spell: Spelling) -> Iterator[Contradiction]:
    patterns: dict[str, Path] = {}
    for i, policy in enumerate(site.delivery.destinations):
        path: Path = ("delivery", "destinations", i)
        pattern: tuple[Path, ...] = ((*path, "pattern"),)
        if policy.pattern in patterns:
            message = f"{policy.pattern!r} is listed twice: only the first would count"
            yield Contradiction(pattern[0], message, (patterns[policy.pattern],))
        if policy.scope and policy.pattern.startswith("queue:"):
            message = (
                f"{spell('scope')!r} is for topics: queue messages always find their way in the whole tree"
            )
            yield Contradiction((*path, "scope"), message, pattern)
        if policy.home and policy.pattern.startswith("topic:"):
            yield Contradiction(
                (*path, "home"), f"{spell('home')!r} is for queues: a topic has no home", pattern
            )
        patterns.setdefault(policy.pattern, pattern[0])
