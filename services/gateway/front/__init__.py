"""The gateway as a proxy in front of a control plane that cannot aggregate its API: one address for all kinds."""
