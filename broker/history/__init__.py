"""How a node's figures went over hours and days, kept by itself: no server beside it is needed.

| module | |
|---|---|
| `series` | which figures are kept, and how each is read from a running node |
| `ring` | the file of fixed size in which the latest samples are |
| `sampler` | takes a sample every few seconds, and folds samples into longer steps |

Law: it costs the way of a message nothing. A sample is one short look at the node, some queues at a time, and
one write of about a hundred bytes in a thread of its own.
"""
