"""`sapwood invite` and `sapwood join`: what is asked, and what people are told."""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from broker.cli.errors import WELL, WRONG_USE, CommandError
from broker.cli.node_api import NodeApi, part
from broker.cli.output import note, print_json, print_table, say_more, table
from broker.enrolment.errors import FolderError, TokenError, without_library
from broker.enrolment.messages import LONGEST_INVITATION
from config.kinds import Duration, Fault
from config.schemes import SITE_BROKERS
from config.uris import ANNOUNCED_URI, BROKER_URI, EMBEDDED

if TYPE_CHECKING:
    from broker.enrolment.joining import Joined

_BROKERS: Final = tuple((each.port, f"{each.scheme}://localhost:{each.port}") for each in SITE_BROKERS)
_QUICK: Final = 0.3
_MAX_TOKEN_LINE: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class ChildWanted:
    """What a new child shall be. `expires`: a duration as in a site's file."""

    name: str
    role: str
    uris: tuple[str, ...]
    expires: str


@dataclass(frozen=True, slots=True)
class JoiningSite:
    """Where a node joins. `site_broker`, `public_uri`: '' = none. `again`: it has joined there before."""

    folder: Path
    site_broker: str
    public_uri: str
    again: bool


def invite_child(api: NodeApi, wanted: ChildWanted, *, as_json: bool) -> None:
    """Print a token, on standard output and by itself. Raises `CommandError`."""
    try:
        lifetime = Duration(minimum=1, maximum=LONGEST_INVITATION).parse(wanted.expires)
    except Fault as error:
        raise CommandError(f"--expires: {error}", WRONG_USE) from None
    body = {"name": wanted.name, "role": wanted.role, "uris": list(wanted.uris), "lifetime": lifetime}
    made = api.change("POST", "/api/invitations", body)
    if as_json:
        print_json(made)
        return
    note(
        f"{made['name']} may join as a {made['role']} until {_day(made['ends'])} at {', '.join(made['ways'])}"
    )
    note("Whoever has this token can join in its place, once; it is shown only now. On the new machine:")
    note("  sapwood join TOKEN --dir /var/lib/sapwood")
    print(made["token"])


def list_invitations(api: NodeApi, limit: int, *, as_json: bool) -> None:
    """Print invitations and who has joined. Raises `CommandError`."""
    found = api.pages("/api/invitations", "invitations", limit, "members")
    if as_json:
        print_json(found)
        return
    made = table("Invited", "As", "State", "Until", "Id", title="Invitations")
    for each in found["invitations"]:
        made.add_row(each["name"], each["role"], each["state"], _day(each["ends"]), each["id"])
    print_table(made)
    made = table("Child", "Joined as", "Certificate until", "", title="Joined")
    for each in found["members"]:
        state = "revoked" if each["revoked"] else ""
        made.add_row(each["name"], each["role"], _day(each["certificate_ends"]), state)
    print_table(made)
    say_more(found)


def revoke_child(api: NodeApi, what: str, *, as_json: bool) -> None:
    """Take back an invitation or a child's right to its name. Raises `CommandError`."""
    gone = api.change("DELETE", f"/api/invitations/{part(what)}")
    if as_json:
        print_json(gone)
        return
    if gone["invitations"]:
        print(f"{what}: the invitation is taken back")
    if gone["member"]:
        print(f"{what} may link no more, and its certificate is not renewed; what waits for it stays here:")
        print(f"  sapwood node forget {what}   withdraws its routes and routes its messages again")


def join_tree(token: str, place: JoiningSite, patience: float, *, run: bool, as_json: bool) -> int:
    """Join, say what was done, and run the node if wished; returns the exit code.

    Raises `EnrolmentError`, `ConfigurationError` or `CommandError`.
    """
    joined = _join(token, place, patience)
    site = joined.site
    if as_json:
        print_json(
            {
                "name": site.name,
                "tree": site.tree,
                "role": site.role,
                "parent": joined.parent,
                "file": str(joined.file),
                "certificate_ends": round(joined.ends),
            }
        )
    else:
        print(f"{site.name} has joined the tree {site.tree} as a {site.role} below {joined.parent}")
        stays = ", as it was" if place.again else ""
        print(f"  {joined.file}: its configuration{stays}; beside it, in tls/, certificate and key")
        print(f"  the certificate is good until {_day(joined.ends)}; the node renews it itself")
        if place.again:
            print("  start the node again, if it runs")
        else:
            _say_what_is_next(joined.file, place.site_broker)
    if not run:
        return WELL
    from broker.cli.run import run_file

    return run_file(joined.file, log_json=False)


def _join(token: str, place: JoiningSite, patience: float) -> "Joined":
    try:
        from broker.enrolment.joining import join
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    if token == "-":  # noqa: S105 - a word that means standard input
        token = sys.stdin.readline(_MAX_TOKEN_LINE)
    try:
        broker = BROKER_URI.parse(place.site_broker) if place.site_broker else EMBEDDED
        public_uri = ANNOUNCED_URI.parse(place.public_uri) if place.public_uri else ""
    except Fault as error:
        raise CommandError(str(error), WRONG_USE) from None
    joining = join(
        token,
        place.folder,
        site_broker=broker,
        public_uri=public_uri,
        patience=patience,
        again=place.again,
        say=note,
    )
    try:
        return asyncio.run(joining)
    except (TokenError, FolderError) as error:
        raise CommandError(str(error), WRONG_USE) from None


def _say_what_is_next(file: Path, site_broker: str) -> None:
    found = "" if site_broker else next(_brokers_here(), "")
    if found:
        print(f"A broker answers at {found}. To join it to the tree, add to {file}:")
        print(f"  site_broker: {{uri: {found}}}")
    print("Next:")
    written = quote(str(file))
    print(f"  sapwood node check {written}")
    print(f"  sapwood node run {written}      (as a service: examples/zero-touch/sapwood@.service)")


def _brokers_here() -> Iterator[str]:
    """Brokers that answer on this machine."""
    for port, uri in _BROKERS:
        with closing(socket.socket()) as probe:
            probe.settimeout(_QUICK)
            if not probe.connect_ex(("127.0.0.1", port)):
                yield uri


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
