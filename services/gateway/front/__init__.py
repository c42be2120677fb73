"""The gateway before a control plane that cannot send requests to it: one address for all kinds."""
