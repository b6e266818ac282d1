"""A whole chain from one table of sites: nobody edits 2,000 files.

`read_sites` reads and checks the table, `write_fleet` writes every site's file, `sites` gives the models
without files.

| module | |
|---|---|
| `files` | writes the files of a chain: OUT/xml/NAME.xml, OUT/yaml/NAME.yaml, and on request its secrets |
| `model` | from the rows of a table to the models of its sites |
| `permits` | permits of a whole chain, from its table and the columns `consume` and `send` in it |
| `row` | one row of a chain's table: a site as its cells say it |
| `table` | reads the table of sites: CSV with a header, one row a site, columns in any order |
| `tree` | whether the rows of a table make one tree |
"""

from config.fleet.files import FleetReport, write_fleet
from config.fleet.model import sites
from config.fleet.row import SiteRow
from config.fleet.table import COLUMNS, read_sites
from config.fleet.tree import tree_problems

__all__ = ["COLUMNS", "FleetReport", "SiteRow", "read_sites", "sites", "tree_problems", "write_fleet"]
