"""Neighbours: who may be one, what they are told of consumers, and what follows when one comes or goes.

| module | what to find there |
|---|---|
| `admission` | a link says hello, proves itself, is up |
| `link_maker` | new links, and what each says of the node |
| `link_custody` | bundles and acknowledgements of a link that is up |
| `neighbourhood` | who is linked; what a link that comes or goes leads to |
| `advertising` | advisories in and out |
| `mesh` | the others of one logical root or branch |
| `handover` | what waits for a lost neighbour goes another way |
| `following`, `heirs` | messages go after a node that moved, or whose neighbour has gone |
| `demand` | who wants a topic of scope `tree`: asked up, answered down |
| `channels` | streams to what another node offers, through the links |
| `relocation` | a name that is live elsewhere |
"""
