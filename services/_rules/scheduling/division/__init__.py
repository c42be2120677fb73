"""Division of replicas by weight, and what a binding takes up."""
