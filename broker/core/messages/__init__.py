"""Messages a node keeps: queues, their entries, and the bundles these stand for; in memory and on disk."""
