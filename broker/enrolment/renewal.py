"""A running node renews its certificate: after two thirds of its lifetime, or at once where it has ended, or
begins later.

Law: the next key is on disk before the parent hears of it, and certificate and key take the place of the old
ones in one step, so that a crash at any moment leaves a pair that the parent knows. A link that is up goes
on; the next one shows the new certificate. An ended certificate is not shown: the signature with its key
proves the name, as long as the parent's grace lasts.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from bridges import certificates
from bridges.certificates import SERVER_BACKDATE, CertificateError
from broker.core.policy import Policy
from broker.enrolment import proofs
from broker.enrolment.authority import PLAUSIBLE, RENEW_AFTER
from broker.enrolment.contact import ask, context_for
from broker.enrolment.errors import EnrolmentError, EnrolmentRefused, ParentUnreachable
from broker.enrolment.joining import ways_of
from broker.enrolment.messages import RENEW_PATH, Granted, Renew
from config.model import Site
from config.schemes import shows_certificate
from config.whole_files import PRIVATE, PUBLIC, put
from treeconnector.wording import counted

_log = logging.getLogger("sapwood.enrolment")
_LOOK_EVERY: Final = 60.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 900.0
_EARLIER: Final = 0.05
_MOST_AUTHORITIES: Final = 64


class CertificateRenewal(Policy):
    """Of the certificate in the tree connector's `tls`. `error`: of the latest attempt, '' if it was good.

    `ends`: of the present certificate, seconds since 1970. `renewed`: how often, since this start.
    `ways_beside`: to all nodes of the parents' mesh, where it is one; each renews.
    """

    def __init__(
        self,
        site: Site,
        *,
        clock: Callable[[], float] = time.time,
        chance: random.Random | None = None,
    ) -> None:
        """Raises `EnrolmentError` where the files are not what they should be."""
        connector = site.connector
        assert connector is not None
        tls = connector.tls
        assert tls.certificate is not None
        assert tls.key is not None
        assert tls.ca is not None
        self._site = site
        self._file, self._key_file, self._ca = tls.certificate, tls.key, tls.ca
        self._next = tls.certificate.with_name(tls.certificate.name + ".next")
        self._clock = clock
        self._earlier = 1 - (chance or random.Random()).uniform(0, _EARLIER)
        self._pause = _FIRST_PAUSE
        self.error = ""
        self.renewed = 0
        self.ways_beside: Callable[[], Iterable[str]] = tuple
        if self._key_file != self._file:
            raise EnrolmentError(
                f"{self._file} and {self._key_file}: with `renew` both stand in one file, so that they change"
                " in one step; put the key behind the certificate"
            )
        try:
            self._look()
        except (OSError, CertificateError) as error:
            raise EnrolmentError(f"{self._file}: {error}") from None

    def __repr__(self) -> str:
        return f"<CertificateRenewal of {self._site.name} ends={self.ends:.0f} renewed={self.renewed}>"

    def _look(self) -> None:
        found = certificates.facts(self._file.read_bytes())
        self.begins, self.ends = found.begins, found.ends

    def due_in(self) -> float:
        """Seconds until the certificate is to be renewed; 0 or less: now.

        One that clocks which were ahead have made is refused until it begins, so it is renewed at once.
        Clocks may differ by less than a day; one that was never set says nothing.
        """
        now, lifetime = self._clock(), self.ends - self.begins
        if PLAUSIBLE <= now < self.begins - SERVER_BACKDATE:
            return 0.0
        return self.begins + lifetime * RENEW_AFTER * self._earlier - now

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(max(await self._look_whether_due(), 0.0))

    async def _look_whether_due(self) -> float:
        """Renew it if so; returns seconds until the next look."""
        pause = min(self.due_in(), _LOOK_EVERY)
        if pause <= 0:
            return await self._attempt()
        if self._pause > _FIRST_PAUSE:  # attempts failed while a clock was wrong
            self._pause, self.error = _FIRST_PAUSE, ""
        return pause

    async def _attempt(self) -> float:
        """Renew, or say why not; returns seconds until the next look."""
        try:
            await self.renew()
        except (EnrolmentError, CertificateError, OSError) as error:
            self._say(str(error))
            return self._longer()
        if self.due_in() <= 0:
            self._say("the new certificate is due already: the clocks here and at the parent differ too much")
            return self._longer()
        self._pause, self.error = _FIRST_PAUSE, ""
        return 0.0

    def _longer(self) -> float:
        """The pause grows; never all nodes at the same moment."""
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.0)

    def _say(self, error: str) -> None:
        """Once for each new text."""
        if error != self.error:
            _log.warning("! the certificate is not renewed: %s", error, extra={"reason": error})
        self.error = error

    async def renew(self) -> None:
        """Ask for the next certificate now, at each way in turn, and put it into its place.

        Raises `EnrolmentError`, `CertificateError`, `OSError`.
        """
        site, present = self._site, self._file.read_bytes()
        if not self._next.exists():
            put(self._next, certificates.make_key(), PRIVATE)
        key = self._next.read_bytes()
        request = certificates.make_request(key, site.name, site.tree)
        text = proofs.renewal_text(site.tree, site.name, certificates.read_request(request).der)
        body = Renew(request=request, signature=certificates.sign(present, text))
        self._take(key, await self._ask_all(body))

    async def _ask_all(self, body: Renew) -> Granted:
        """A refusal counts when nobody else takes it: of a mesh one may know more than another."""
        failed: EnrolmentError = ParentUnreachable("no way to the parent")
        context = context_for(self._ca.read_bytes())
        for way in await self._ways():
            try:
                return await ask(way, RENEW_PATH, body, context)
            except EnrolmentError as error:
                failed = failed if isinstance(failed, EnrolmentRefused) else error
        raise failed

    async def _ways(self) -> list[str]:
        beside = [*filter(shows_certificate, self.ways_beside())]
        try:
            return list(dict.fromkeys([*await ways_of(self._site), *beside]))
        except ParentUnreachable:
            if not beside:
                raise
            return beside

    def authorities_told(self, authorities: bytes) -> None:
        """Trust these, too."""
        try:
            known = certificates.split(self._ca.read_bytes())
            more = [each for each in certificates.split(authorities) if each not in known]
            if more and len(known) + len(more) <= _MOST_AUTHORITIES:
                put(self._ca, b"".join([*known, *more]), PUBLIC)
                _log.info("= trusts %s more of its parents' mesh", counted(len(more), "authority"))
        except (CertificateError, OSError) as error:
            self._say(f"the authorities of the parents' mesh: {error}")

    def _take(self, key: bytes, granted: Granted) -> None:
        certificate, authorities = granted.certificate.encode(), granted.authorities.encode()
        found = certificates.facts(certificate)
        if found.key != certificates.public_key(key) or found.name != self._site.name:
            raise CertificateError(f"the parent gave a certificate for {found.name!r} or for another key")
        certificates.split(authorities)
        if authorities != self._ca.read_bytes():
            put(self._ca, authorities, PUBLIC)
        put(self._file, certificate + key, PRIVATE)
        self._next.unlink(missing_ok=True)
        self._look()
        self.renewed += 1
        _log.info("= renewed the certificate, good for %.0f s", self.ends - self._clock())

    def status(self) -> dict[str, Any]:
        return {
            "ends_s": round(self.ends - self._clock(), 3),
            "renewed": self.renewed,
            "error": self.error,
        }
