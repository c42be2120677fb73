"""When something that is missing counts as deleted: identity of an endpoint, sudden disappearance, confirmation."""
