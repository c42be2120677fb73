"""Role-based access control: policy rules, the index of the roles and bindings that hold them, and our own roles.

Pure: answers what an identity may do. How requests become attributes of an access is the API server's.
"""
