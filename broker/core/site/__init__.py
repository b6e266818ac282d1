"""The node's own clients: the site broker, and the queues that the node itself reads."""
