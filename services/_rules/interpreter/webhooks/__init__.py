"""Interpretation by webhooks: which answers for what, requests and answers. They are called from _kit."""
