"""What a node tells Prometheus: its figures as families of samples, and their text."""
