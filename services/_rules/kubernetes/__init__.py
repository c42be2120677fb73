"""Semantics of Kubernetes itself: quantities, selectors, taints, patches, field ownership. Nothing of Karmada."""
