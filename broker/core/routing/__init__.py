"""Routing: where a bundle that came goes next.

| module | what to find there |
|---|---|
| `admission` | whether a bundle or a send may enter: one answer for all that come |
| `arrivals` | a bundle that comes: was it here before, where does it wait, or does it go straight on |
| `forwarding` | from a queue to an outbox, and what comes back |
| `topics` | one message to every subscriber, each once |
| `fan_out` | its copies for subscriptions here, a part in each commit where they are many |
| `greetings` | retained messages for new filters, a part in each turn |
| `earlier_writers` | retained values of other nodes whose place another one takes: who is told |
| `subscriptions` | whose a subscription is, how long it lasts, and its id |
| `upward` | the topics of scope `tree` that go up from here, and whether they are wanted there |
| `addresses`, `questions` | which incarnation is where, and who is asked |
| `readdressing` | aliases and the dumpster |
"""
