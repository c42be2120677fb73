"""How many replicas fit into a cluster, and what is reserved there. Which cluster is chosen is in _rules/scheduling."""
