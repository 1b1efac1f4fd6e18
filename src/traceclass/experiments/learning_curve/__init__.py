"""How many demonstrations are enough, and how much the noise level matters."""
