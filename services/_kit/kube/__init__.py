"""The client of Kubernetes endpoints: requests, lists, watches.

Whose endpoint it is belongs to credentials and members.
"""
