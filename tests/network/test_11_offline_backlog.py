"""A store that starts with a large backlog is ready again quickly, and drains it completely."""
