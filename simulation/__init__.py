"""Whole chains in one process: the production cores of thousands of nodes on a virtual clock and network."""
