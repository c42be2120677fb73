"""Division of replicas by weight, and the resource usage of a binding."""
