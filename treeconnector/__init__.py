"""The tree's protocol, sans I/O: addresses, frames, routes, advisories, links; on `sapwood.protocol`.

| module | |
|---|---|
| `address_frames` | what the frames about logical addresses may say, and how they are kept small |
| `addresses` | a node's cache of logical addresses: which incarnation has which name, who said so |
| `advertiser` | what this node tells one audience: its parents (`Up`), its children (`Down`) |
| `advisories` | the advisory rules: who is told of which consumer |
| `edge` | what passes between a node and the broker of its site's applications, as values |
| `frames` | what two neighbours say to each other, as values and as bytes |
| `held` | what one neighbour has told this node: routes in the table, and offers that were declined |
| `hellos` | what a hello may say, and whether two hellos fit together |
| `identity` | who a node is, durably and for one start, and how bundles and messages are named |
| `incoming` | what one end of a link has received: numbers, window, pieces, snapshot |
| `interest_keys` | how questions for interest name topics and queues |
| `interests` | what consumers on this node want: the law behind the `LOCAL` routes |
| `link` | a link between a child, which dials, and its parent, which accepts |
| `link_events` | what a link tells its node |
| `link_handshake` | how a link comes up: hello, hello, proof, proof; and how it is refused on the way |
| `frame_events` | what a peer says with frames that change nothing of the link |
| `link_sender` | all that a node says on a link that is up |
| `link_settings` | what a link is told when it is made, and the hello that follows from it |
| `link_states` | which frame is legal when: one table, where a link stands in it, and the diagram |
| `offers` | what one end of a link has told the other about routes |
| `outgoing` | what one end of a link has to send, in the order that the protocol demands |
| `pacing` | time on a link: is the peer alive, and does it send too much |
| `parts` | bundles that are larger than a packet: cut into pieces here, put together there |
| `patterns` | topics and topic patterns: one canonical form inside |
| `permit_patterns` | sets of patterns, and three questions about them: is this name in |
| `permits` | what a child may consume, send, and have below it: its parent's grant |
| `positions` | where two neighbours stand with each other |
| `proofs` | how two neighbours prove that they know the link's secret, without sending it |
| `relations` | what a neighbour is to this node: above it, below it, or beside it in a mesh of cores |
| `roles` | roles are types: what a leaf, a branch and the root may do |
| `routes` | the routing table: for each destination, through which gateways it is reached |
| `static_routes` | routes that an operator sets: exact, alias, default and dumpster |
| `stream_packets` | packets of streams, as they are written |
| `stream_pool` | bytes that all links of a node may lend to their streams together |
| `streams` | the streams of one link: numbers, credit both ways, what waits to be sent |
| `wording` | words in texts for people |
| `trie` | finds which of many patterns match a topic, without trying each |
| `gaps` | the same of those in which something follows a `#` |
"""
