"""Messages: queues, their entries, and the bundles that these stand for.

| module | what to find there |
|---|---|
| `queue`, `queue_names` | a queue, its entries and their bundles, in memory and in pages; its name on disk |
| `resting` | entries that are passed over for now, and how many there may be |
| `pages`, `summaries` | entries that are on disk alone, and what is known of all of them together |
| `unpacked` | the bundles whose messages are in memory |
| `deduplication` | which messages were here before |
| `retained` | the latest message of each topic |
| `tally` | counts and rates of one queue or neighbour |
| `trace` | what happened to bundles lately |
"""
