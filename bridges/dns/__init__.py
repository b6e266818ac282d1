"""Where nodes are, as DNS tells it: `_sapwood._tcp.DOMAIN`, SRV and TXT.

| module | what to find there |
|---|---|
| `records` | what the records of one way say, and in which order to try several. Pure |
| `leases` | which of them nobody keeps any more. Pure; the clock is the caller's |
| `lookup` | asks DNS for them (dnspython) |
| `multicast` | asks the same network, and answers there (dnspython) |
| `zone` | reads and changes them at the zone's own server, by RFC 2136 with TSIG (dnspython) |
| `errors` | the errors of DNS |

Law: DNS tells where a node may be, never who it is. Its answers are bounded here; the node at the other end
is proved in the link's handshake, as for any address in a file.
"""
