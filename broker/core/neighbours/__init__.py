"""Neighbours: who may be one, what they are told of consumers, and what follows when one comes or goes."""
