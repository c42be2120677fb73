"""MultiClusterIngresses: where their backends are and what their status says of it; pure, no I/O."""
