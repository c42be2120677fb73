"""The kinds that the API server serves: their names, fields, defaults, checks and discovery documents."""
