"""Kubeconfigs and credentials of endpoints: opened, read again when they change, and when they end."""
