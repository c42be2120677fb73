"""Clients of members: opened from Cluster objects and their Secrets, renewed when those change or are refused."""
