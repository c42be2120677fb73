"""Indexes of the detector's state: which objects a change elsewhere concerns, without looking at all of them.

Pure: what is remembered of templates, and data structures that know nothing of policies, facts or decisions.
"""
