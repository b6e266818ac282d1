"""Policies: rules about messages and observers of them, asked and told in one order (`broker.core.policy`).

| module | what to find there |
|---|---|
| `permits`, `replies`, `loans` | what a child may do; where answers may go; what it may give back |
| `backpressure` | what a full spool asks of neighbours |
| `usage`, `statistics` | which routes are used; figures |
"""
