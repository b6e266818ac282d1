"""DNS: the look-ups for the parent, and this node's own registration. Only where a site has these."""

from typing import Final

from broker.diallers import Diallers
from broker.location.finder import Finder
from broker.location.registrar import Registrar
from broker.metrics.exposition import Family, counter, gauge

REGISTRATION_STATES: Final = ("registering", "registered", "waiting", "withdrawn")


def families(diallers: Diallers, registrar: Registrar | None) -> list[Family]:
    found: list[Family] = []
    if diallers.finders:
        found += _lookups(diallers.finders)
    if registrar is not None:
        found += _registration(registrar)
    return found


def _lookups(finders: list[Finder]) -> list[Family]:
    lookups = counter("sapwood_location_lookups", "Look-ups of the parent in DNS.")
    failed = counter("sapwood_location_lookups_failed", "Those that gave no answer that was of use.")
    ways = gauge("sapwood_location_ways", "Ways to the parent in the latest good answer.")
    for finder in finders:
        lookups.add(finder.lookups, domain=finder.domain)
        failed.add(finder.failures, domain=finder.domain)
        ways.add(len(finder.places), domain=finder.domain)
    return [lookups, failed, ways]


def _registration(registrar: Registrar) -> list[Family]:
    state = gauge("sapwood_registration_state", "1 for the state of this node's own records in DNS, else 0.")
    for each in REGISTRATION_STATES:
        state.add(int(registrar.state == each), state=each)
    return [
        state,
        counter("sapwood_registration_renewals", "How often the records were written.").add(
            registrar.renewals
        ),
        gauge("sapwood_registration_failures", "Attempts to write them since the last success.").add(
            registrar.failures
        ),
        counter("sapwood_registration_swept", "Records of others removed after their lease.").add(
            registrar.swept
        ),
    ]
