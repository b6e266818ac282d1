"""How answers of plain commands look to people: one module for each noun of `broker.api`, in it one function
for each operation that has a command, called as the operation is. It is given the answer, and may take what
was asked, too.

Others of the operation's name stand beside it where they are needed: `…_wrong(given)` says why nothing is
asked at all, `…_failed` why the command failed though it was answered ('' = neither); `…_note(found, given,
api)` says more, beside the answer. An operation without a view is printed plainly.

| module | |
|---|---|
| `alarms` | alarms, and how the webhook is |
| `addresses` | names, incarnations, and where they can be dialled |
| `below` | the nodes below a node, and which of them are down |
| `cells` | cells, and the way to one |
| `dead_letters` | dead letters |
| `deliveries` | who would get a topic's message |
| `channels` | channels that go through a node |
| `history` | how the figures went, drawn in characters |
| `links` | links, and what neighbours have asked to keep |
| `messages` | messages of a queue |
| `moves` | messages that were moved |
| `node` | a node that leaves its tree, forgets a child, or looks its parent up |
| `permits` | what children may do, and what they were refused |
| `queues` | queues |
| `routes` | the routing table |
| `sessions` | sessions and consumers |
| `trail` | who changed what at a node |
"""
