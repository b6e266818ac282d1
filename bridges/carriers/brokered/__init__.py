"""Links that ride on a broker: what MQTT and AMQP have in common.

The adapters are `bridges.carriers.mqtt` and `bridges.carriers.amqp`.

The child connects to its parent's site broker and *knocks* there; the parent, which listens for knocks, makes
a connection of its own for this link and answers. From then on each side says on one topic or queue what the
other hears on it. Law: nothing outlives a link, and a carrier is up only once the other node has answered.

| module | what to find there |
|---|---|
| `carrier` | the carrier on top of a line; `connect` for the child |
| `listener` | the parent's side: hears knocks, answers, hands carriers to the node |
| `line` | the port: one connection to a broker, for one link or for the knocks |
| `envelopes` | the words of both sides: knock, answer, packets, taken, end, gone |
| `window` | numbers, and how much may be under way: pure |
| `names`, `permissions` | how topics, queues and keys are called; the lines that confine each child to its
own |
"""
