"""The HTTP face: routes, bodies, verbs, discovery. Rules belong to the rooms below."""
