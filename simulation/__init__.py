"""Whole chains in one process: the production cores of thousands of nodes on a virtual clock and network.

| module | |
|---|---|
| `account` | the account of a random history: what must hold at its end of its messages, wherever they went |
| `actions` | one thing that happens in a random history, with everything that was chosen for it |
| `advisory_log` | the advisory log of simulated nodes: the contract's columns as Parquet, by tree |
| `applications` | an application at a simulated site: it sends, it reads what it subscribed to |
| `chaos` | random histories of a tree, and the account that must hold at their end |
| `clients` | applications at simulated sites: producers that say again what was not confirmed |
| `deployment` | which nodes there are and who is whose parent: from the table of sites, or made to measure |
| `disk` | a disk that is a dictionary: what survives a crash of the core above it |
| `forest` | a tree of node cores whose every step is chosen by hand: literal times |
| `interest` | random histories of topics that go up where they are wanted, and the lines they cross |
| `invariants` | what must hold in a tree at rest |
| `lines` | lines between sites on a virtual clock: what is said takes its time |
| `machine` | a site on a virtual clock: when its core wants to be woken, whom it dials, and who works there |
| `population` | the people and the misfortunes of a workload, as things that happen in a world |
| `roaming` | random histories of bundles that are divided: the account of `simulation.chaos` |
| `run` | one simulation from its beginning to its end: a world, who lives in it, its log and its summary |
| `shrinking` | the shortest part of a history that still goes wrong (delta debugging) |
| `site` | one machine of a simulated tree: a disk that outlives the core |
| `soak` | many random histories, one after the other: the nightly test of the design's invariants |
| `summary` | what a simulated chain did and cost, as one value for programs and as text for people |
| `usage` | the use of routes, as real nodes write it beside their logs: here of all nodes in one file |
| `weather` | random weather over a small tree on a virtual clock, and what must hold once it is over |
| `wire` | a connection between a child and its parent, and the packets that are on their way |
| `workload` | what happens in a simulated chain: read from a YAML file, checked like a site's file |
| `world` | a tree on a virtual clock: every node's core, the lines between them |
"""
