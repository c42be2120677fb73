"""Built-in kinds by API group, but for workloads."""
