"""Manifest bytes beside the log: blobs by digest, and the keys that Secrets are encrypted with."""
