"""The one way of writes into the store: create, update, patch, apply, delete."""
