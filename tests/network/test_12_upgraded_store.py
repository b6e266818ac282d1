"""A store that is upgraded loses nothing; one restarted while cut off still keeps for HQ what HQ wants."""
