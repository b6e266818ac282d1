"""The message switch: what applications do with their sessions, queues, producers and consumers.

| module | what to find there |
|---|---|
| `switch` | what clients can do |
| `producers`, `batching` | messages in: checked, gathered, confirmed or not taken |
| `transfers` | messages out that a session fetches |
| `settlement` | what becomes of messages that a session was given |
| `local_interest` | a local consumer comes or goes: the routing table learns, and the log |
| `local_queues` | queues that applications made |
| `kept_sessions` | sessions that outlive their connections: what is kept of them on disk |
| `mandatory` | a sender is told at once that nobody serves a queue |
| `duplicate_injection` | debug: some messages are given twice |
"""
