"""Admission of writes: plugins and webhooks. Checks of a kind are in kinds."""
