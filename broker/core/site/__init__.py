"""The node's own clients: the site broker, and the queues that the node itself reads.

| module | what to find there |
|---|---|
| `site`, `site_consumer` | the site broker's consumers, and what they are given |
| `site_greetings` | retained messages for one binding at a broker that retains nothing |
| `site_intake` | what the site broker gives |
| `retained_interest` | which retained messages would be heard to change |
| `internal_queues` | how nodes talk with each other |
"""
