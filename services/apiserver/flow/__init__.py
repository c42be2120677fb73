"""What keeps one request from holding up others: seats by user, limits of time, and work aside of the event loop.

What a request may hold is bounded by services/_rules/kubernetes/document_bounds.py; what it does belongs to the rooms
of reads and writes.
"""
