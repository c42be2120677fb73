"""What the log and the control plane know of MultiClusterServices, and what is decided about them."""
