"""One node as a pure state machine: inputs in, transactions and effects out.

`node` puts the rooms together. `context` is given to nearly every part, `policies.policy`
lists who decides about messages and who is told of them.

| room | what to find there |
|---|---|
| `messages/` | queues, entries, bundles, in memory and on disk |
| `delivery/` | from a queue to the consumers here |
| `routing/` | from where a bundle came to where it goes next |
| `clients/`, `site/` | the message switch; the node's own clients |
| `links/`, `neighbours/` | one neighbour's state; who may be one, and what they are told |
| `policies/` | permits, limits, back-pressure; trace, usage, statistics |
| `operations/` | what an operator does |
| `commit`, `clock`, `rows`, `settings`, `errors` | what all of these stand on |
| `restore`, `housekeeping` | the start; what is done once a second |
"""
