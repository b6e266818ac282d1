"""One neighbour: the state that outlives its links.

| module | what to find there |
|---|---|
| `neighbour` | its position, outbox and figures |
| `earlier_holds` | what it asked to keep before its line broke |
| `outgoing` | a bundle as it goes over the link |
| `peer_holds` | what it asks this node to keep |
| `refusals` | what was refused, by which rule |
"""
