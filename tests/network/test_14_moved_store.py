"""A store moves to another region, and a level is inserted above a region, by one file; the spool follows."""
