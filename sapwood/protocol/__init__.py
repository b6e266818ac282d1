"""What a client and its node both need: names, destinations, messages, session frames; pure, without I/O.

The node imports this part of the client library, and nothing else of it.

| module | |
|---|---|
| `bundles` | bundles: what is stored, forwarded and acknowledged between nodes as one |
| `destinations` | where a message goes: a queue (one consumer gets it), a topic (every subscriber does) |
| `errors` | the tree of errors |
| `names` | names of trees, nodes and queues: what is allowed, checked once at the edge |
| `packets` | packets: frames that a line carries as one |
| `session_frames` | what a client and its node say to each other on a streaming session |
"""
