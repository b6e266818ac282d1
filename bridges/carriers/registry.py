"""Which adapter a link's address leads to: the module that its row in `config.schemes` names.

A carrier to the parent's own port has a function `connect`, as `bridges.carriers.websocket` has. One through
a broker has `broker`, which makes a `bridges.carriers.brokered.line.Broker`. The client libraries are extras:
where one lacks, the error says how to install it.
"""

from importlib import import_module
from typing import Any

from bridges.carriers.base import Carrier, CarrierBroken
from bridges.carriers.brokered.line import Broker, BrokerAccess
from bridges.tls import TlsSettings
from config.uris import Address


async def connect(
    way: Address, *, tls: TlsSettings | None, timeout: float, max_packet: int, local: str
) -> Carrier:
    """Dial a node's own port. `local`: the address to bind, '' = as the system chooses.

    Raises `CarrierError`, or `bridges.tls.TlsError` for unusable files.
    """
    dial = _adapter(way).connect
    carrier: Carrier = await dial(way.uri, tls=tls, timeout=timeout, max_packet=max_packet, local=local)
    return carrier


def broker_for(way: Address, access: BrokerAccess, tree: str, max_packet: int) -> Broker:
    """The broker at an address, for links of this tree. Raises `CarrierBroken` without its library."""
    made: Broker = _adapter(way).broker(access, tree, max_packet)
    return made


def check_library(way: Address) -> None:
    """Raises `CarrierBroken` where the library for this address is not installed."""
    _adapter(way)


def _adapter(way: Address) -> Any:
    protocol = way.protocol
    try:
        return import_module(f"bridges.carriers.{protocol.carrier}")
    except ModuleNotFoundError as error:
        raise CarrierBroken(
            f"{way.scheme}:// needs the Python package {error.name!r}: {protocol.install}"
        ) from None
