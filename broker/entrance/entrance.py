"""Who an application is, decided in one place for HTTP, streaming sessions and MQTT.

What proves it: the session secret, which gives every right; an account's name and password, with the rights
that the site's file gives the account; or a client certificate of this tree, with the rights of the child
that it names, so that a stolen store's certificate is no way round its permits. Whoever shows none of them
gets in if the file says `applications: open`, or, from this very machine, as long as neither secret nor
account is configured.

Law: encrypted is not proven. Law: a wrong proof is not made up for by another one that is shown beside it.
Law: failures are counted, logged with their address but without what was given, and slowed down by address
(`Tries`).
"""

import asyncio
import hmac
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from broker.core.errors import Busy, NotLoggedIn, SwitchError
from broker.core.policy import Policy
from broker.core.sessions.rights import CHANGED, Rights
from broker.core.sessions.sessions import Session
from broker.entrance.complaints import Complaints
from broker.entrance.near import is_near
from broker.entrance.passwords import Hashed, of_nobody
from broker.entrance.policy import EntrancePolicy
from broker.entrance.tries import LONGEST_WAIT, Tries
from broker.threads import Threads
from treeconnector.identity import Shown
from treeconnector.permits import Permit, application

_log = logging.getLogger("sapwood.entrance")
_MOST_LOOKS: Final = 256
_MOST_OF_ONE: Final = 8
"""Passwords that are being looked at; and of one address."""
OPEN: Final = (
    "applications: open: whoever reaches this node's port may read and send everything; configure accounts, a"
    " session secret or client certificates instead"
)


class Caller(NamedTuple):
    """Who asks to log in, and what it shows. `carrier`: http, session or mqtt. `near`: see `near`."""

    carrier: str
    address: str
    near: bool
    account: str = ""
    secret: str = ""
    shown: Shown = Shown()

    @property
    def host(self) -> str:
        return host_of(self.address, near=self.near)


def host_of(address: str, *, near: bool) -> str:
    """Who is counted together. Whoever comes through a proxy on this machine is none of its own programs."""
    host = address.rpartition(":")[0]
    return f"{host} through a proxy" if is_near((host,), (host,)) and not near else host


Outcome = Callable[[Rights | SwitchError], None]
Holder = Callable[[Shown], str]
"""Of a certificate: the name of the child that it is of. Raises `SwitchError`."""


def _no_certificates(_shown: Shown) -> str:
    raise NotLoggedIn("this node asks for no certificates")


class Entrance(Policy):
    """Of one node. `holder`, `permit_of`: whose a certificate is, and what that child may do. `sessions`:
    all.
    """

    def __init__(
        self,
        node: str,
        policy: EntrancePolicy,
        holder: Holder = _no_certificates,
        permit_of: Callable[[str], Permit] = lambda child: Permit(),
        sessions: Callable[[], Iterable[Session]] = tuple,
    ) -> None:
        self._node = node
        self._policy = policy
        self._holder = holder
        self._permit_of = permit_of
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._tries = Tries(self._loop.time)
        self._complain = Complaints(self._loop.time)
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        self._nobody = of_nobody()
        self._of_secret, self._unproven = Rights(), Rights()
        self._accounts: WeakValueDictionary[str, Rights] = WeakValueDictionary()
        self._certificates: WeakValueDictionary[Shown, Rights] = WeakValueDictionary()
        self._thread = Threads("sapwood-passwords")
        self._looking: dict[tuple[str, bytes], list[tuple[Caller, Outcome]]] = {}
        self._looks: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        if policy.is_open:
            _log.warning("! %s", OPEN)

    def __repr__(self) -> str:
        return f"<Entrance of {self._node} {self._policy!r} failed={self.failed.total()}>"

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def warnings(self) -> list[str]:
        return [OPEN] if self._policy.is_open else []

    def status(self) -> dict[str, object]:
        policy = self._policy
        return {
            "mode": policy.mode,
            "secret": bool(policy.secret),
            "accounts": len(policy.accounts),
            "certificates": policy.certificates,
            "failed_logins": dict(self.failed),
            "slowed_addresses": self._tries.slowed,
        }

    # --- coming in

    def admit(self, caller: Caller, done: Outcome) -> None:
        """Call `done` once, now or later, with the rights of the caller, or with why it is refused."""
        guesses = caller.account or caller.secret
        if not guesses or not self._policy.knows_words or self._is_too_far(caller):
            self._end(caller, self._without_words(caller), done)
            return
        delay = self._tries.delay(caller.host)
        if delay is None:
            self._end(caller, Busy("too many failed logins from your address: try again in a minute"), done)
        elif delay:
            self._tries.waits(caller.host)
            self._loop.call_later(delay, self._after_wait, caller, done)
        else:
            self._try(caller, done)

    async def admitted(self, caller: Caller) -> Rights:
        """The same for who can wait. Raises `SwitchError`."""
        future: asyncio.Future[Rights | SwitchError] = self._loop.create_future()
        self.admit(caller, lambda found: None if future.done() else future.set_result(found))
        found = await future
        if isinstance(found, SwitchError):
            raise found
        return found

    def _after_wait(self, caller: Caller, done: Outcome) -> None:
        self._tries.waited(caller.host)
        self._try(caller, done)

    def _try(self, caller: Caller, done: Outcome) -> None:
        """Compare what was said. The session secret opens under any name: MQTT clients have to give one."""
        if self._policy.secret and _same(caller.secret, self._policy.secret):
            done(self._of_secret)
        elif not caller.account:
            text = "wrong session secret" if self._policy.secret else "this node has no session secret"
            self._fail(caller, NotLoggedIn(f"{text}: {self._how()}"), done)
        elif self._is_known(caller):
            done(self._of_account(caller.account))
        else:
            self._look_at_password(caller, done)

    def _look_at_password(self, caller: Caller, done: Outcome) -> None:
        """It takes a while, so in a thread, one after the other; as long for a name that nobody has.

        Who gives the same words waits for the same look, and of one address a few looks only are under way.
        """
        account = self._policy.accounts.get(caller.account)
        hashed = account.hashed if account is not None else self._nobody
        words = caller.account, self._mark(caller.secret, hashed)
        if words in self._looking:
            self._looking[words].append((caller, done))
            return
        if len(self._looking) >= _MOST_LOOKS or self._looks[caller.host] >= _MOST_OF_ONE:
            self._end(caller, Busy("too many logins at once: try again in a moment"), done)
            return
        self._looking[words] = [(caller, done)]
        self._looks[caller.host] += 1
        looking = self._loop.run_in_executor(self._thread, hashed.is_of, caller.secret)
        looking.add_done_callback(partial(self._looked, words, hashed))

    def _looked(self, words: tuple[str, bytes], hashed: Hashed, looking: "asyncio.Future[bool]") -> None:
        waiting = self._looking.pop(words)
        first, _ = waiting[0]
        self._looks -= Counter((first.host,))
        if looking.cancelled():
            return
        if looking.exception() is not None:  # as for want of memory, which is nobody's wrong password
            for caller, done in waiting:
                self._end(caller, Busy("the password cannot be looked at now: try again in a moment"), done)
            return
        name, mark = words
        account = self._policy.accounts.get(name)
        right = looking.result()
        if right and account is not None and account.hashed == hashed:
            self._known[name] = mark
            for _, done in waiting:
                done(self._of_account(name))
            return
        who = f"of account {name!r}" if account else "or no such account"
        for caller, done in waiting:
            self._fail(caller, NotLoggedIn("wrong account or password"), done, f"wrong password, {who}")

    def _is_known(self, caller: Caller) -> bool:
        """Was this password right before? So thousands that come back at once are let in at once."""
        account, mark = self._policy.accounts.get(caller.account), self._known.get(caller.account)
        if account is None or mark is None:
            return False
        return hmac.compare_digest(mark, self._mark(caller.secret, account.hashed))

    def _mark(self, password: str, hashed: Hashed) -> bytes:
        return hmac.digest(self._key, hashed.digest + password.encode(errors="replace"), "sha256")

    def _without_words(self, caller: Caller) -> Rights | SwitchError:
        policy = self._policy
        if self._is_too_far(caller):
            return NotLoggedIn("this node takes applications of its own machine only (applications: local)")
        if caller.shown.certified and policy.certificates:
            try:
                return self._of_certificate(caller.shown)
            except SwitchError as error:
                return error
        if policy.is_open or (caller.near and not policy.knows_words):
            return self._unproven
        return NotLoggedIn(f"this node does not know who you are: {self._how()}")

    def _is_too_far(self, caller: Caller) -> bool:
        return self._policy.mode == "local" and not caller.near

    def _how(self) -> str:
        policy = self._policy
        ways = ["its session secret"] * bool(policy.secret)
        ways += ["an account's name and password"] * bool(policy.accounts)
        ways += ["a client certificate of this tree"] * policy.certificates
        return f"log in with {' or '.join(ways)}" if ways else "it lets in its own machine's only"

    # --- refusing

    def _end(self, caller: Caller, found: Rights | SwitchError, done: Outcome) -> None:
        if isinstance(found, SwitchError):
            self._count(caller, str(found))
        done(found)

    def _fail(self, caller: Caller, error: SwitchError, done: Outcome, logged: str = "") -> None:
        self._tries.failed(caller.host)
        self._count(caller, logged or str(error))
        done(error)

    def _count(self, caller: Caller, why: str) -> None:
        self.failed[caller.carrier] += 1
        self._complain(caller.host, caller.address, f"an application ({caller.carrier}) was refused: {why}")

    def wrong_token(self, address: str, why: str = "", *, near: bool) -> float:
        """An operator's request came with a token that is not the node's: seconds until it may be told so.

        The right token is never made to wait, or whoever guesses behind a proxy could lock the operator out.
        """
        host = host_of(address, near=near)
        delay = self._tries.delay(host)
        self._tries.failed(host)
        self.failed["api"] += 1
        self._complain(host, address, f"a request came with a wrong token{f': {why}' if why else ''}")
        return LONGEST_WAIT if delay is None else delay

    # --- rights

    def owner_of(self, token: str) -> str:
        """Whose a session's name is, '' = anybody's: of a slash what is before it may be an account."""
        name, slash, _ = token.partition("/")
        return f"account {name}" if slash and name in self._policy.accounts else ""

    def rights_of(self, account: str) -> Rights | None:
        """Of an account that the site's file names; None where it names none so."""
        return self._of_account(account) if account in self._policy.accounts else None

    def _of_account(self, name: str) -> Rights:
        rights = self._accounts.get(name)
        if rights is None:
            account = self._policy.accounts[name]
            permit = Permit([application(self._node, name, account.consume, account.send)])
            rights = Rights(f"account {name}", f"{name}/", permit)
            self._accounts[name] = rights
        return rights

    def _of_certificate(self, shown: Shown) -> Rights:
        """Raises `SwitchError`."""
        name = self._holder(shown)
        rights = self._certificates.get(shown)
        if rights is None:
            rights = Rights(f"certificate {name}", f"{name}:", self._permit_of(name), is_of_child=True)
            self._certificates[shown] = rights
        return rights

    def configure(self, policy: EntrancePolicy) -> None:
        """The site's file was read again: whose account is not what it was has to log in again, and whoever
        came in with a session secret that is another one now, or without a proof where one is asked for now.
        """
        before, self._policy = self._policy, policy
        if before.secret != policy.secret:
            self._send_away(self._of_secret, "an application with the session secret")
            self._of_secret = Rights()
        if policy.knows_words and not (before.knows_words or policy.is_open):
            self._send_away(self._unproven, "an application that had no proof to give")
            self._unproven = Rights()
        for name, rights in list(self._accounts.items()):
            if before.accounts.get(name) != policy.accounts.get(name):
                del self._accounts[name]
                self._send_away(rights)

    def permits_changed(self) -> None:
        """A child was turned away, or may do something else now: its certificate's holders log in again."""
        for shown, rights in list(self._certificates.items()):
            try:
                name = self._holder(shown)
                same = rights.permit is not None and rights.permit.grants == self._permit_of(name).grants
            except SwitchError:
                same = False
            if not same:
                del self._certificates[shown]
                self._send_away(rights)

    def _send_away(self, rights: Rights, otherwise: str = "") -> None:
        rights.ended = True
        for connection in [each for session in self._sessions() for each in session.connections]:
            if connection.rights is rights:
                _log.info("- %s at %s: %s", rights.who or otherwise, connection.address, CHANGED)
                connection.end(CHANGED)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
