"""Built-in kinds that run pods, and pods themselves."""
