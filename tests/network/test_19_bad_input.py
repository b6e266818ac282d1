"""What is wrong on a link is told to both sides, and the other links go on."""
