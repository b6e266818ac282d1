"""How a node finds its parent by DNS, and lets its children find itself.

- `finder`: what DNS says of one `srv://DOMAIN`, looked up again when its TTL ends, on failure and on request.
- `ways`: the ways to one parent in the order in which to try them, from the file and from DNS.
- `cores`: the other nodes of a mesh, found under one domain.
- `strategies`: in which order the ways are tried.
- `lan`: asks the same network by multicast, and answers there.
- `registrar`: registers, renews and withdraws this node's own records.
"""
