"""Objects, revisions and watches of the API server on one stream. Kinds and requests are unknown here."""
