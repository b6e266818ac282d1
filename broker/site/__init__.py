"""The node's half of the port to its site's broker.

| module | |
|---|---|
| `desk` | keeps the bridge at work, for ever |
| `line` | the desk as one connection of the bridge sees it |
| `rules` | which names pass, and what they are called on the other side |
| `bridges` | the bridge that the site's file asks for |
"""
