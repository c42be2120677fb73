"""What WorkloadRebalancers ask of bindings, what came of it, and when they go: pure decisions on the state."""
