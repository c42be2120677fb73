"""The fields of the kinds of Kubernetes and karmada.io, as generated tables."""
