"""Role-based access control of the embedded server: the authorizer, who may grant what, and the roles it starts with.

The rules themselves are `services/_rules/kubernetes/rbac`.
"""
