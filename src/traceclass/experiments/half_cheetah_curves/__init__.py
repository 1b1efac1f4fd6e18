"""The half cheetah over the number of demonstrations, irrelevant inputs and nodes."""
