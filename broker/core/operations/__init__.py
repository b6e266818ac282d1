"""What an operator does to messages, queues and routes of a node.

| module | what to find there |
|---|---|
| `removal` | queues and messages deleted |
| `dead_letters` | dead letters given back |
| `static_routing` | routes set by hand |
"""
