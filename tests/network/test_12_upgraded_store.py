"""A store that is upgraded loses nothing, and one restarted while cut off still keeps for HQ what HQ wants."""
