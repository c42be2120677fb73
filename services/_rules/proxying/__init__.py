"""What of a request for a member may pass, and in whose name: paths, headers, identities, rights to impersonate."""
