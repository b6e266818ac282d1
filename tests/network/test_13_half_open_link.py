"""A half-open link does not keep a restarted store out."""
