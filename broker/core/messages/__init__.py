"""Messages that a node keeps: queues, their entries, and the bundles that these stand for.

| module | what to find there |
|---|---|
| `custody` | all of it, and the transaction that gathers: who changes anything says so there |
| `queue`, `queue_names` | where entries wait; what queues are called on disk |
| `entries` | a stored bundle, and an entry: one duty to deliver it from one queue |
| `backlog`, `pages`, `paging`, `shared` | a queue's entries in order, in memory and on disk |
| `expiry` | which entries run out of time, the next one first |
| `deduplication` | which messages were here before |
| `retained` | the latest message of each topic |
| `spools`, `tally` | bytes that wait by direction; counts and rates of one queue or neighbour |
"""
