"""Interpretation by webhooks: their rules, requests and answers. They are called from _kit."""
