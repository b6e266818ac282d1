"""A node's own cells: what nodes ask each other through the tree, and what they answer.

| module | |
|---|---|
| `cells` | asks and answers |
| `paths` | ping and traceroute |
| `deliveries` | who would get a topic's message |
| `tracing`, `trace_command` | the trace as a node offers it; what one node says of messages that passed it |
| `channel_trace_command` | what one node says of channels that went through it |
| `walk`, `timeline` | asks the nodes along the way of a message or a channel; what they said as one story |
| `errors` | how asking another node can end |
"""
