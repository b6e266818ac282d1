"""One neighbour: the state that outlives its links.

| module | what to find there |
|---|---|
| `neighbour` | its position, outbox and figures |
| `open_links` | the links that are not over, and whose they are |
| `outgoing` | a bundle as it goes over the link |
| `peer_holds` | what it asks this node to keep |
| `refusals` | what was refused, by which rule |
"""
