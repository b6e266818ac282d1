"""The message switch: sessions, queues, producers and consumers of this node's applications."""
