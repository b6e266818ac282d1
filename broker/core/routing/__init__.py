"""Routing: where a bundle that came goes next.

| module | what to find there |
|---|---|
| `arrivals` | what a bundle must pass before it is kept |
| `forwarding` | from a queue to an outbox, and what comes back |
| `topics` | one message to every subscriber, each once |
| `addresses`, `questions` | which incarnation is where, and who is asked |
| `readdressing` | aliases and the dumpster |
"""
