"""A disk that fills refuses producers and loses nothing; a node that leaves gives its messages back."""
