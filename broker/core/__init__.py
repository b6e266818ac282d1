"""One node as a pure state machine: inputs in, transactions and effects out.

`node` puts the parts together, each of which gets what it needs when it is made: `context`, and some parts of
the layers below its own. It says what has happened to those above by a moment of `policy`, whose order
stands in `node`. From the top down; nothing imports what stands above it, or beside it in one line:

| layer | what to find there |
|---|---|
| `node` | all parts, and the loop's calls |
| `restore` | the start |
| `housekeeping` | what is done once a second |
| `neighbours/` | who may be one, and what they are told |
| `policies/` | permits, loans, back-pressure; usage, statistics |
| `site/` | the node's own clients |
| `operations/` | what an operator does |
| `clients/` | the message switch |
| `routing/` | from where a bundle came to where it goes next |
| `delivery/` | from a queue to the consumers here |
| `lookup`; `tree/` | which way a queue's messages go; links, who is above, what is offered |
| `context` | what nearly all parts need |
| `commit` | a transaction, and what may be told after it |
| `policy` | the moments of policies |
| `custody/`; `sessions/` | all that is kept, in memory and on disk; applications and consumers |
| `links/` | one neighbour's state |
| `messages/` | queues, entries, bundles; what happened to them |
| `clock`; `rows`; `settings`; `errors` | what all of these stand on |
"""
