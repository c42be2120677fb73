"""Expressions in CEL: their types, Kubernetes' functions, what they cost, and evaluating them. Decides only, no I/O."""
