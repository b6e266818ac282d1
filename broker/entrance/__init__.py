"""The way in for applications and operators: who they are, where they come from, what they may do.

| module | |
|---|---|
| `entrance` | who comes in, by password, token or certificate |
| `policy` | what the site's file says of that |
| `operators` | who administrates the node, by a token and with a role |
| `issuer`, `issuer_keys`, `id_tokens` | operators who log in elsewhere: an issuer, its keys, its tokens |
| `passwords`, `certificates` | what proves who somebody is |
| `near` | who comes from this machine |
| `tries`, `complaints` | whoever guesses waits; and is told of in the log, not too often |
"""
