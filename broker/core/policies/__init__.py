"""Policies: rules about messages and observers of them, asked and told in one order (`policy`).

| module | what to find there |
|---|---|
| `policy` | the moments, and the order |
| `permits`, `replies`, `loans` | what a child may do; where answers may go; what it may give back |
| `rights` | what an application may do |
| `queue_limits`, `backpressure` | a full queue; a full spool |
| `trace`, `usage`, `statistics` | what happened lately; which routes are used; figures |
"""
