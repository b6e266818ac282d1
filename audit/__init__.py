"""Spark jobs over advisory logs and deployments: what a tree's advisories cost, and what others would cost.

Law: every analysis is a pure function from DataFrames to a DataFrame, over the schemas in `schema`; no Python
runs on executors. Law: this package imports nothing else of Sapwood, so that a cluster needs only it.

`reading` takes logs in and accounts for every line; `deployment` makes the tree from a table of sites;
`volume`, `spillage`, `waste`, `whatif`, `scope` and `capacity` are the analyses; `findings` says what to do;
`output` and `report` write; `follow` does it while logs arrive; `run` ties them together.
"""
