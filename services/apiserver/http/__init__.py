"""HTTP API of the server: routes, bodies, verbs, discovery. Rules belong to the packages below."""
