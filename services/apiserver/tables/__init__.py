"""Table rows of kinds, as `kubectl get` shows them."""
