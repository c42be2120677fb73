"""Common parts of the admission rules: causes, formats, field types, metadata."""
