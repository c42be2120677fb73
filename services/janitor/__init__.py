"""Purges facts of objects that ended long ago, and trims the tails of busy subjects.

Consumes: every fact and observation, and how far stream HISTORY has come.
Produces: nothing; it purges FACTS and OBSERVED, and announces what is gone (a hint that may be lost).
Owns: the end of life of objects, policies and clusters; the conditions are in `services/_rules/history/retention.py`.
Never: removes an event that is not superseded or closed, that HISTORY does not hold, or whose copy a member may have.
"""
