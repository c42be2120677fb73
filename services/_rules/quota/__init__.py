"""FederatedResourceQuotas: what bindings use of a namespace, what a quota limits and assigns, what it refuses."""
