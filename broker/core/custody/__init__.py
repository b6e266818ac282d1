"""Custody: all that a node must keep, and what of that is still to be committed.

| module | what to find there |
|---|---|
| `custody` | all of it, and the transaction that gathers: who changes anything says so there |
| `paging`, `shared` | what leaves memory when many wait, and comes back |
| `loading` | the start: all of it as it was |
| `expiry` | which entries run out of time, the next one first |
| `spools` | bytes that wait, by direction |
"""
