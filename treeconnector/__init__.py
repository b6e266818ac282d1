"""Sapwood's protocol, sans I/O: addresses, destinations, bundles, frames, routes, advisories, links."""
