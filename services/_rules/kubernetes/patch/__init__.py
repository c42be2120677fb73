"""Patches of Kubernetes: JSON Patch, merge patch and strategic merge patch. Overrides are in _rules/overrides."""
