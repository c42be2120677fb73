"""API servers that are not ours: whether the kubeconfigs given for them can be used, and joining those that can."""
