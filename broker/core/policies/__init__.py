"""Policies: permits, limits, flow control; and what is counted and traced."""
