"""Benchmarks of whole trees: real processes, real sockets, real disks. See README.md."""
