"""What a node tells Prometheus: its figures as families of samples, and their text.

| module | |
|---|---|
| `collector` | all figures of one node, as they are now |
| `exposition` | families of samples, and the two texts that Prometheus reads: its own format 0.0.4 |
| `intake` | connections at the node's ports, and those that were not taken |
| `label_limit` | bounded labels: the largest have a name of their own, all others together are `other` |
| `links` | links: the state of each, how long it has lasted, what went over it, what waits for it |
| `location` | DNS: the look-ups for the parent, and this node's own registration |
| `node` | the node as a whole: who it is, what went through it, its store, its disk, its routes |
| `process` | the process as the kernel sees it, under the names that every Prometheus client uses |
| `queues` | queues and topics: how much waits, how long, and what goes through |
| `sessions` | applications' sessions: what each has, sent and got |
| `site` | the broker of the site's applications; where they use the node itself, it is up and has nothing |
"""
