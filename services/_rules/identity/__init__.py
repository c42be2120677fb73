"""Accounts of the log, bootstrap tokens and what they may do. Identities of endpoints are in _rules/absence."""
