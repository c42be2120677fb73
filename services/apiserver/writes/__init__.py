"""The write path into the store: create, update, patch, apply, delete."""
