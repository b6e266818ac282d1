"""Audits of advisory logs and deployments: what a tree's advisories cost, and what others would cost.

Law: Spark goes over the log, and gives sums; every table is a query over these at the driver, by DuckDB over
Arrow. On a cluster no Python runs on executors; what has no log needs no Spark. Law: this package imports
nothing else of Sapwood, so that a cluster needs only it.

On Spark: `reading` takes logs in and accounts for every line; `passes` are all passes over what was read;
`follow` looks at logs while they arrive; `session` starts it. At the driver: `queries` runs a query;
`deployment` makes the tree from a table of sites; `volume`, `spillage`, `waste`, `whatif`, `population`,
`churn`, `scope` and `capacity` are the analyses; `findings` says what to do; `output`, `report` and
`first_screen` write. `run` ties them together.

| module | |
|---|---|
| `alerts` | where alerts go: a file of JSON lines a batch |
| `beside` | work that goes on beside other work: while Java starts, and several passes at once |
| `causes` | the pass over the log by cause: what each coming and going of a consumer cost |
| `charts` | the charts of the report, as SVG texts that stand by themselves |
| `checkpoint` | what a streaming query has taken for good, as its checkpoint tells |
| `churn` | the comings and goings of a log under this network, and under others by product |
| `cli` | the command line: `sapwood audit`, `python -m audit`, and under spark-submit |
| `clocks` | whose clock is wrong: never set, ahead of the file that it wrote into, or set back |
| `comparison` | the report's sections on what else one could build |
| `delta` | a history as Delta tables, without a jar |
| `direct` | tasks of Spark that read Parquet by themselves, where it lies on this machine |
| `errors` | `AuditError`, the one error of this package |
| `first_screen` | the first screen of the report: a sentence, a chart, the map of the tree |
| `feeder` | cuts logs that grow into pieces that do not: what Spark's file source needs |
| `files` | what became of each file, and of rows that several files have |
| `given` | tables that are given beside the logs: the use of routes, and figures over time |
| `history` | the audits of day after day, and followers' counts, as dated tables that other tools read |
| `holes` | rows that are missing from a node's log, and logs that two nodes of one name wrote |
| `importers` | logs of other people's brokers, read as advisory logs |
| `java` | finds a Java that runs Spark: the system's from version 17 |
| `lines` | reads lines of JSON: of the advisory log, or of what another broker wrote (`importers`) |
| `listing` | which files there are to read: on this machine, or wherever Spark's file systems reach |
| `offsets` | whose clock differs from the others', as their advisories show |
| `options` | the options of the command line, and how their values are read |
| `page` | what a report is made of, as HTML: tables, sections, values |
| `parquet` | reads advisory logs in Parquet; `tree` and `region`, and any other column |
| `period` | the time that is audited; rows before and after it are counted, and in no sum |
| `places` | places beyond this machine, as pyarrow reaches them, and logs that are brought from there |
| `regular` | what a regular tree costs, in plain arithmetic: for the growth curve |
| `rollup` | the log, summed once: what most tables are made from |
| `schema` | the schemas of what comes in |
| `storage` | where a history keeps its tables: files of Parquet in dated folders, or Delta tables |
| `sums` | sums over rows, in words that Spark and DuckDB share |
| `told` | passes over the log by route and by consumer |
| `trees` | tells logs of other trees apart that lie in the folder |
| `views` | statements that make views of a history's tables, for DuckDB and Spark |
| `verdict` | what an audit may claim: how much was spilled, and of how much that can be said |
"""
