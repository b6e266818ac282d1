"""The client library: what an application uses to talk to its site's node."""
