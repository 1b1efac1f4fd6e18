"""The paper's theorems, seen over the width of the network."""
