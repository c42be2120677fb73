"""What all admission rules share: causes, formats, field types, metadata."""
