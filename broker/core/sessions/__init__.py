"""Sessions: an application's identity at this node, what it reads, and what it sends.

| module | what to find there |
|---|---|
| `sessions` | sessions, connections and consumers; what they have not acknowledged |
| `parts` | frames that are about very many messages, cut into parts |
| `mail` | messages that a session fetches, and its transfers that wait |
| `producer_streams` | numbered sends, and which of them were rejected |
| `rights` | what an application may do |
| `masking` | how much of a session's token may be shown |
"""
