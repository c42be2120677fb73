"""The formats of names and the checks of metadata that every kind has, with the texts of an API server."""
