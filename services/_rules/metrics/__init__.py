"""Metrics of members: what is asked for, which values can be used, and how they become one answer."""
