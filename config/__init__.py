"""Per-site configuration: one frozen model, read from XML or YAML."""
