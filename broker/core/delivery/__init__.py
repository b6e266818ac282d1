"""Delivery: messages that wait in a queue go to the consumers that this node has there.

| module | what to find there |
|---|---|
| `delivery` | the queue's messages to its consumers, as far as their credit goes |
| `transfer_ids` | the numbers of the messages that consumers are given |
| `queue_limits` | a full queue |
| `delivery_order` | was something given that was made later? |
| `poison_messages` | the message that a consumer fails on goes alone |
"""
