"""Renewal of what an installation holds: certificates in files and Secrets, accounts of the log in Secrets."""
