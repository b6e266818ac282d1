"""A replaced machine is let in, a restored database is noticed, and a disk image started twice is refused."""
