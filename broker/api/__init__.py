"""An operator's view of one node, and hand on it, by noun: the types of the answers, what is done, and
each operation's name, parameters and permission in one module. All else that says it is made of these.

Law: nothing takes as long as there are messages without letting others have their turn (`pages`); every list
has a bound and comes in pages; no session's token is in any answer (`masked`). Times in seconds, sizes
in bytes.

| module | what an operator asks or does |
|---|---|
| `status`, `node` | how the node is; it leaves, forgets a child, looks its parent up |
| `history` | how its figures went over hours and days |
| `alarms` | alarms on these figures, and a test of the webhook |
| `queues`, `messages`, `moves`, `dead_letters` | what waits, message by message; dead letters |
| `sessions` | clients and what they want |
| `below` | the nodes below, and which of them are down |
| `tree`, `links`, `cells`, `routes`, `addresses` | who is where, and which way it goes, here and elsewhere |
| `deliveries` | who would get a topic's message |
| `channels` | the channels that go through a node, begin or end at it |
| `advisories` | what was heard of consumers and links lately |
| `permits`, `invitations` | what children may do, and who may become one |
| `definitions` | all that a node has when nothing waits, as one file |
| `stateless` | applications without a session: publish, receive, acknowledge |
| `trail` | who changed what by these operations |
| `trace`, `follow`, `live` | what happened to messages, and what happens now |

| module | what they stand on |
|---|---|
| `operation` | how an operation is declared, and how what is asked is read by it |
| `table` | all operations; the catalogue that the command line is made of (`python -m broker.api`) |
| `asking` | carries an operation out, here or at another node |
| `context` | a running node as operations see it |
| `definition_file`, `importing` | the form of a file of definitions; looks at one, then makes what it says |
| `following` | who follows messages, and what is kept for them |
| `pages` | long lists, a page at a time |
| `errors` | what another node answers, as an operator is told it |
| `filters`, `previews`, `proofs` | destinations that are meant; messages to be read; a neighbour's proof |
"""
