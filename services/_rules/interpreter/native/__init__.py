"""Built-in interpretation of native kinds, one module per operation."""
