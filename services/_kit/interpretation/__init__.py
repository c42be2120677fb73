"""Interpretation by scripts and webhooks, outside of pure decisions. The rules of it are in _rules/interpreter."""
