"""Field management of objects, and server-side apply."""
