"""Reads members for search and for the view of all of them at once: what ResourceRegistries select, kept as bytes.

Consumes: cluster facts; ResourceRegistries of the control plane; lists and watches of members.
Produces: nothing on the log; documents in a search backend where a registry names one.
Owns: the index of members' objects, the cache endpoint and the global proxy of search.karmada.io.
Never: decides, writes a fact, or keeps what no registry selects.
"""
