"""Of two readers of one queue in two regions, one gets everything new while the other's region is away."""
