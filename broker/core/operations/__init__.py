"""Operations: an operator takes messages, queues and routes away, or sets them.

| module | what to find there |
|---|---|
| `removal` | queues and messages deleted |
| `moving` | messages moved to another queue |
| `dead_letters` | dead letters given back |
| `static_routing` | routes set by hand |
"""
