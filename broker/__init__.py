"""The node: its pure core, the durable store, the message switch, the supervisor and the command line."""
