"""The state of a simulated cluster, and how pods, labels and claims in it are read."""
