"""Routing: where a bundle that came goes next; topics, addresses, and questions for them."""
