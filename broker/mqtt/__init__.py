"""The door for MQTT applications at a node that is its site's broker.

| module | |
|---|---|
| `door` | listens, and knows who is connected |
| `client` | one connection as a session of the switch |
| `publishing`, `reading` | what it publishes; what it subscribes to, is given and acknowledges |
| `unread` | writes as fast as it reads |
| `packets`, `packet_ids` | MQTT 3.1.1 as bytes; packet identifiers of messages under way |
| `ports` | what these know of each other |
"""
