"""One link's state: the neighbour at its other end, its outbox, its holds and refusals."""
