"""What simulated nodes and pods use: a load model that users set, and metrics.k8s.io over it."""
