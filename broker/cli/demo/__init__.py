"""The demo: a small chain of real node processes, with real damage, counted at the receivers.

`plan` says who exists and what is sent · `processes` runs the nodes · `line` is the region's line, which
can be cut · `traffic` is the applications, `trickle` what they send afterwards · `ledger` counts ·
`costs` counts advisories and knows what other brokers would have spent · `view` shows the tree · `report`
is the end · `run` plays the piece · `tied` is `sapwood` in a process that ends with another.
"""
