"""What an operator does to messages, queues and routes of a node."""
