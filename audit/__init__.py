"""Audits of advisory logs and deployments: what a tree's advisories cost, and what others would cost.

Law: Spark goes over the log, and gives sums; every table is a query over these at the driver, by DuckDB over
Arrow. No Python runs on executors; what has no log needs no Spark. Law: this package imports nothing else of
Sapwood, so that a cluster needs only it.

On Spark: `reading` takes logs in and accounts for every line; `passes` are all passes over what was read;
`follow` looks at logs while they arrive; `session` starts it. At the driver: `queries` runs a query;
`deployment` makes the tree from a table of sites; `volume`, `spillage`, `waste`, `whatif`, `population`,
`scope` and `capacity` are the analyses; `findings` says what to do; `output` and `report` write. `run` ties
them together.
"""
