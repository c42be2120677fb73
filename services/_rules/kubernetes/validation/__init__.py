"""Formats of names, and rules of fields, metadata, metrics, ingresses and addresses, as an API server has them."""
