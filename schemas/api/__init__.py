"""Kubernetes and karmada.io kinds as Structs: only the fields this product reads, unknown ones are kept elsewhere."""
