"""A whole chain from one table of sites: nobody edits 2,000 files.

`read_sites` reads and checks the table, `write_fleet` writes every site's file, `sites` gives the models
without files.
"""

from config.fleet.files import FleetReport, write_fleet
from config.fleet.model import sites
from config.fleet.row import SiteRow
from config.fleet.table import COLUMNS, read_sites
from config.fleet.tree import tree_problems

__all__ = ["COLUMNS", "FleetReport", "SiteRow", "read_sites", "sites", "tree_problems", "write_fleet"]
