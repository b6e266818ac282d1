"""The message switch: sessions, queues, producers and consumers of this node's applications.

| module | what to find there |
|---|---|
| `switch`, `sessions` | what clients can do; who they are |
| `producers`, `batching`, `rejections` | messages in: checked, gathered, confirmed or not taken |
| `transfers` | messages out that a session fetches |
| `local_queues` | queues that applications made |
| `mandatory` | a sender is told at once that nobody serves a queue |
| `duplicate_injection` | debug: some messages are given twice |
| `masking` | how much of a session's token may be shown |
"""
