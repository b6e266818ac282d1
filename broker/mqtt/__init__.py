"""The door for MQTT applications at a node that is its site's broker.

| module | |
|---|---|
| `door` | listens, and knows who is connected |
| `client` | one connection as a session of the switch |
| `publishing`, `reading` | what it publishes; what it subscribes to, is given and acknowledges |
| `subscribing` | SUBSCRIBE and UNSUBSCRIBE packets, a slice at a time |
| `connecting` | what a CONNECT asks for, and its answer |
| `unread` | writes as fast as it reads |
| `reasons` | reason codes; the packets themselves are in `bridges.mqtt` |
| `packet_ids`, `aliases` | packet identifiers of messages under way; topic aliases |
| `messages`, `names` | messages and topics as those of the tree |
| `ports` | what these know of each other |
"""
