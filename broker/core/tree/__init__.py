"""The tree, as far as this node sees it: its links, who is above, what it offers.

| module | what to find there |
|---|---|
| `open_links` | the links that are not over, and whose they are |
| `ancestry`, `root` | who is above; the root that is kept on disk |
| `offers` | what parents, children and nodes of the mesh are told |
| `below` | the nodes below, and since when some of them cannot be reached |
"""
