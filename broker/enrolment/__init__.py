"""Children that join by invitation, and certificates that are renewed: both ends of it.

| module | |
|---|---|
| `registrar`, `authority` | the inviting node: what it decides, and the files of its authority |
| `joining` | a fresh machine's side |
| `renewal` | a running node's side |
| `sharing` | what the inviting nodes of a mesh tell each other |
| `opening` | which of these a node has |
| `messages`, `contact` | what is said, and how the parent is asked |
| `tokens`, `proofs` | what travels by hand; how a secret is proven that only its hash is kept of |
| `files`, `errors` | private folders; what can go wrong |
"""
