"""From CONNECT to CONNACK: what a client asks for, who it is, what is kept of it; and its will."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, Protocol

from bridges.mqtt import packets
from bridges.mqtt.fields import PacketError
from bridges.mqtt.framing import LEVEL_5
from bridges.mqtt.packets import Connect
from bridges.mqtt.properties import NONE, Name, Properties
from bridges.tls import shown_by
from broker.core.clients.kept_sessions import NEVER, KeptSession, LaterWill
from broker.core.errors import TOO_MANY, SwitchError
from broker.core.sessions.rights import Rights
from broker.entrance.entrance import Caller
from broker.entrance.near import is_near
from broker.intake import Guest
from broker.mqtt.aliases import MOST_ALIASES
from broker.mqtt.ports import Clients, Speaker
from broker.mqtt.publishing import MOST_RECEIVED, Publishing
from broker.mqtt.reasons import Reason, in_connack, of_error
from sapwood.protocol.errors import SapwoodError
from sapwood.protocol.session_frames import VERSION, Login

_log = logging.getLogger("sapwood.mqtt")
PREFIX: Final = "mqtt/"
"""Begins the names of MQTT clients' sessions."""
_MAX_ID: Final = 250
_LONGEST_WHY: Final = 200
_NO_LIMIT: Final = 1 << 32
MOST_WAITING: Final = 8192
"""Messages that a client is given and has not answered, whatever it says. With nearly all of the 65,535
identifiers in use each message looks through all of them for one that is free.
"""


class Wishes(NamedTuple):
    """What a client wants of its connection. `expires_in`: seconds for which its session is kept after it;
    `window`: messages that it takes before it answers; `most_packet`: bytes; `aliases`: of topics.
    `is_explained`: may refusals carry a text?
    """

    expires_in: int
    window: int
    most_packet: int
    aliases: int
    is_explained: bool = True


def wishes_of(connect: Connect) -> Wishes:
    if connect.level != LEVEL_5:
        return Wishes(0 if connect.clean else NEVER, MOST_WAITING, _NO_LIMIT, 0)
    said = connect.properties
    return Wishes(
        said.get(Name.SESSION_EXPIRY, 0),
        min(said.get(Name.RECEIVE_MAXIMUM, MOST_WAITING), MOST_WAITING),
        said.get(Name.MAXIMUM_PACKET_SIZE, _NO_LIMIT),
        said.get(Name.TOPIC_ALIAS_MAXIMUM, 0),
        bool(said.get(Name.REQUEST_PROBLEM_INFORMATION, 1)),
    )


class Candidate(Speaker, Protocol):
    """A connection, as this part knows it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def over(self) -> bool: ...

    def end(self, why: str, reason: int = Reason.UNSPECIFIED) -> None: ...


class Connecting:
    """Of one connection. `wishes`: what the client asked for."""

    def __init__(self, client: Candidate, port: Clients, guest: Guest) -> None:
        self._client = client
        self._port = port
        self._guest = guest
        self._connect: Connect | None = None
        self._assigned = ""
        self.wishes = Wishes(0, 0, 0, 0)

    def __repr__(self) -> str:
        return f"<Connecting {self.client_id!r} {self.wishes}>"

    @property
    def asked(self) -> bool:
        """Did its CONNECT come?"""
        return self._connect is not None

    @property
    def client_id(self) -> str:
        return self._connect.client_id if self._connect is not None else ""

    @property
    def is_5(self) -> bool:
        return self._connect is not None and self._connect.level == LEVEL_5

    @property
    def keep_alive(self) -> int:
        """Seconds for which it may be silent, 0 = for ever. Only in MQTT 5 can it be told of another time."""
        asked = self._connect.keep_alive if self._connect is not None else 0
        most = self._port.max_keep_alive if self.is_5 else 0
        return min(asked or most, most) if most else asked

    # --- who it is

    def open(self, connect: Connect, publishing: Publishing) -> None:
        """Its CONNECT is here. Raises `PacketError`."""
        if not connect.client_id and (connect.clean or connect.level == LEVEL_5):
            self._assigned = self._port.new_id()
        client_id = connect.client_id or self._assigned
        self._connect = connect = connect._replace(client_id=client_id)
        self.wishes = wishes_of(connect)
        if not client_id or len(client_id) > _MAX_ID or not client_id.isprintable():
            self._refuse(Reason.WRONG_CLIENT_ID, "it has no client id that can be kept")
        elif Name.AUTHENTICATION_METHOD in connect.properties:
            self._refuse(Reason.WRONG_METHOD, "this node knows no method of extended authentication")
        elif Name.AUTHENTICATION_DATA in connect.properties:
            self._refuse(Reason.PROTOCOL_ERROR, "data of an extended authentication, and no method of it")
        elif not self._guest.may_log_in:
            self._refuse(Reason.UNAVAILABLE, TOO_MANY)
        elif (size := len(self._accepted(present=False))) > (most := self.wishes.most_packet):
            self._refuse(Reason.PACKET_TOO_LARGE, f"its CONNACK has {size} bytes, and it takes {most}")
        else:
            self._check_will(connect, publishing)
            self._ask_who_it_is(connect, publishing)

    def _check_will(self, connect: Connect, publishing: Publishing) -> None:
        if connect.will is None:
            return
        try:
            publishing.check(connect.will)
        except PacketError as error:
            if self.is_5:
                error.answer = self._refusal(error.reason, str(error))
            raise

    def _ask_who_it_is(self, connect: Connect, publishing: Publishing) -> None:
        transport, password = self._client.transport, (connect.password or b"").decode(errors="replace")
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        shown = shown_by(transport.get_extra_info("peercert"))
        address = self._client.connection.address
        caller = Caller("mqtt", address, is_near(peer, local), connect.user or "", password, shown)
        self._port.entrance.admit(caller, partial(self._admitted, publishing))

    def _admitted(self, publishing: Publishing, found: Rights | SwitchError) -> None:
        """It is known now who it is, and whether it may come in."""
        if self._client.over:
            return
        if isinstance(found, SwitchError):
            self.refuse_login(found.code, str(found))
            return
        self._client.connection.rights = found
        will = self._connect.will if self._connect is not None else None
        if will is not None and (why := publishing.why_not(will.topic, found)):
            self._refuse(Reason.NOT_AUTHORIZED, f"its will: {why}")
            return
        self._client.ask(Login(VERSION, PREFIX + self.client_id))
        self._port.host.wake()

    def refuse_login(self, code: str, why: str) -> None:
        """For the code of one of the switch's errors."""
        found = of_error(code)
        told = found in (Reason.WRONG_PASSWORD, Reason.NOT_AUTHORIZED)
        self._refuse(found if told else Reason.UNAVAILABLE, why)

    def _refuse(self, reason: Reason, why: str) -> None:
        self._client.transport.write(self._refusal(reason, why))
        self._client.end(why)

    def _refusal(self, reason: int, why: str) -> bytes:
        if not self.is_5:
            return packets.connack(present=False, code=in_connack(reason))
        explained: Properties = {Name.REASON_STRING: why[:_LONGEST_WHY]}
        tries = (packets.connack(present=False, code=reason, said=each) for each in (explained, NONE))
        return next((each for each in tries if len(each) <= self.wishes.most_packet), b"")

    # --- what is kept of it

    def make_room(self) -> Iterator[None]:
        """End what was kept of a session that this one does not go on with."""
        kept_sessions, token = self._client.core.kept_sessions, self._client.session
        if self._connect is not None and self._connect.clean:
            self._port.resume(token)  # an older version's was not kept as one
            kept_sessions.end(token)
        while kept_sessions.is_ending(token):
            kept_sessions.end_some(token, 1)
            yield

    def welcome(self) -> KeptSession | None:
        """Write the CONNACK, and return the session where it is kept. Raises `Busy`."""
        token = self._client.session
        kept_sessions = self._client.core.kept_sessions
        present = self._port.resume(token) is not None
        self._client.write(self._accepted(present=present))
        if not (present or self.wishes.expires_in):
            return None
        return kept_sessions.keep(token, self.wishes.expires_in)

    def _accepted(self, *, present: bool) -> bytes:
        """The CONNACK of a client that may come in."""
        return packets.connack(present=present, code=0, said=self._said() if self.is_5 else None)

    def _said(self) -> Properties:
        said: dict[Name, object] = {
            Name.MAXIMUM_PACKET_SIZE: self._port.max_packet,
            Name.TOPIC_ALIAS_MAXIMUM: MOST_ALIASES,
            Name.RECEIVE_MAXIMUM: MOST_RECEIVED,
        }
        retention = int(self._client.core.settings.subscription_retention)
        if self.wishes.expires_in > retention:
            said[Name.SESSION_EXPIRY] = retention
        if self._connect is not None and self.keep_alive != self._connect.keep_alive:
            said[Name.SERVER_KEEP_ALIVE] = self.keep_alive
        if self._assigned:
            said[Name.ASSIGNED_CLIENT_ID] = self._assigned
        return said

    def disconnected(self, expires_in: int | None) -> None:
        """Its DISCONNECT may say how long its session is kept. Raises `PacketError`."""
        if expires_in is None:
            return
        if expires_in and not self.wishes.expires_in:
            raise PacketError("a session that was not to be kept is to be kept", Reason.PROTOCOL_ERROR)
        self.wishes = self.wishes._replace(expires_in=expires_in)
        kept = self._client.core.kept_sessions.get(self._client.session)
        if kept is not None:
            kept.expires_in = expires_in

    def leave_will(self, publishing: Publishing) -> None:
        """Publish it now; or later, where it says so and the session is kept for as long. It ends with the
        rights to send it.
        """
        will, rights = (
            self._connect.will if self._connect is not None else None,
            self._client.connection.rights,
        )
        if will is None or rights is None or rights.ended:
            return
        core, token = self._client.core, self._client.session
        delay = min(will.properties.get(Name.WILL_DELAY, 0), self.wishes.expires_in)
        try:
            if delay and core.kept_sessions.get(token) is not None:
                due = int((core.clock.now + delay) * 1000)
                destination, message, flags = publishing.kept_will(will)
                core.kept_sessions.keep_will(token, LaterWill(due, str(destination), message, flags))
            else:
                publishing.publish_will(will)
        except SapwoodError as error:
            _log.warning("! MQTT client %r: its will could not be sent: %s", self.client_id, error)
