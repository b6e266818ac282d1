"""A disk that fills refuses producers and loses nothing; a node that leaves for good gives its messages back."""
