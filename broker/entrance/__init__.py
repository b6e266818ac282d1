"""The way in for applications and operators: who they are, where they come from, what they may do."""
