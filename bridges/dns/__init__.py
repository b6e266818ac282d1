"""Where nodes are, as DNS tells it: `_sapwood._tcp.DOMAIN`, SRV and TXT.

- `records`: what the records of one way say, and in which order to try several. Pure.
- `leases`: which of them nobody keeps any more. Pure; the clock is the caller's.
- `lookup`: asks DNS for them (dnspython).
- `zone`: reads and changes them at the zone's own server, by RFC 2136 with TSIG (dnspython).

Law: DNS tells where a node may be, never who it is. What it says is bounded here; who is at the other end is
proved in the link's handshake, as for any address in a file.
"""
