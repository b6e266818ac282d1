"""`sapwood top`: one node, live, in the terminal.

`look` asks the node and works out what changed; `view` draws it, however narrow the terminal; `keys` reads
the keyboard; `run` is the loop.
"""
