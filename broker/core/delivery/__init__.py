"""Delivery: messages that wait in a queue go to the consumers that this node has there."""
