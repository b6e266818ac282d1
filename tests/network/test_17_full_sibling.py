"""One store whose spool is full keeps nothing from its siblings."""
