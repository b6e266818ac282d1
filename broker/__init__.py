"""The node: its pure core, the durable store, the message switch, the supervisor and the command line.

| module | |
|---|---|
| `access` | access to a node for children, applications and accounts, and their rights, as its file says |
| `advisory_files` | the files of an advisory log: appended to, begun anew by size, compressed aside |
| `advisory_log` | the advisory log: what consumers came and went, which advisories that cost |
| `alarms` | alarms on the node's figures: raised, ended, shown, and told to a webhook |
| `api` | an operator's view of one node, and hand on it, by noun: the types of the answers, what is done |
| `buffers` | the bytes in memory for all connections together: who waits, and who is cut off for it |
| `cells` | a node's own cells: what nodes ask each other through the tree, and what they answer |
| `chronicle` | what this node tells the advisory log and its journal, in the words of its core |
| `cli` | the command line |
| `core` | one node as a pure state machine: inputs in, transactions and effects out |
| `core_driver` | the node's short loop: a pure core, driven with a store, a clock and links |
| `diallers` | who dials whom: the parent that the file names, the other nodes of its mesh |
| `enrolment` | children that join by invitation, and certificates that are renewed: both ends of it |
| `entrance` | the way in for applications and operators: who they are, where they come from |
| `forwards` | what a node does with channels that begin or end at it |
| `grants` | what the site's file lets each child do: its own rules, else those for all |
| `headroom` | how much memory the process may still take, where it has a limit: of a control group |
| `histogram` | how long something took, counted into buckets: cheap to observe, exact to add up |
| `history` | how a node's figures went over hours and days, kept by itself |
| `host` | the port between a node's short loop and the parts that stand around it |
| `http` | the node's one port: links of children, sessions of applications, and the node's status |
| `intake` | who may connect to the node's ports: how many |
| `link_brokers` | children that dial at a broker: the node hears them knock there |
| `link_driver` | the node's wires: each a link and the carrier that it rides on |
| `link_secrets` | which secret a link is proven with, and who may connect at all |
| `location` | how a node finds its parent by DNS, and lets its children find itself |
| `log_throttle` | what is said in the log of children that are turned away: who tries again and again |
| `loops` | the event loop that whole programs run on |
| `logs` | the node's log on standard error: text for people, JSON for programs |
| `memory` | the node's memory: what was freed goes back to the system |
| `metrics` | what a node tells Prometheus: its figures as families of samples, and their text |
| `mqtt` | the door for MQTT applications at a node that is its site's broker |
| `naming` | a name for a node whose file gives none: drawn at the first start, kept in the store |
| `node` | the node as a process: a pure core on its short loop, links on carriers, one HTTP port |
| `operator_log` | what the node's log says of its links, queues, dead letters, refusals and disk |
| `pauses` | how long a node waits before it tries again: twice as long after each failure |
| `process` | a node as the whole work of a process: from its start to SIGTERM, SIGINT or its failure |
| `report` | the parts of a node of which its status and its figures tell |
| `room` | the room that a node has left: disk and memory for messages, and for connections |
| `rotating` | files of lines that are begun anew when they are long, as the trail writes them |
| `settings` | from a site's configuration to what the cores, links and HTTP need of it |
| `shares` | shares of the event loop: no neighbour and no client takes more of it than its part |
| `site` | the node's half of the port to its site's broker |
| `store` | the node's durable store: `Store.open`, `GroupCommit` in front of it |
| `supervisor` | keeps a link to a parent, or to another node of the mesh: dials |
| `threads` | the threads of a node: they are there before it needs them, and each call gets its answer |
| `trail` | the trail of changes: who changed what by the operators' operations |
| `usage` | the use of routes, written beside the advisory log |
| `watchdog` | ends the process with a last word when its loop, or the thread of its store, stands still |
"""
