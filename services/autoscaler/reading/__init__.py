"""What rounds read: autoscalers and scales of the control plane, pods and samples of members, other metrics."""
