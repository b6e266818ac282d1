"""The node's one port: links of children, sessions of applications, and the node's status."""
