"""How near a network comes to a function that it sees almost everywhere."""
