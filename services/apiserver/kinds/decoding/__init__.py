"""Field tables of the built-in kinds, and how a body of the wrong shape is refused."""
