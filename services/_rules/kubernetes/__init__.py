"""Semantics of Kubernetes itself: quantities, selectors, taints, patches, field ownership, YAML. Nothing of Karmada."""
