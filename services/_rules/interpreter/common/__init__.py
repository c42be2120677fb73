"""Common parts of all interpreters: the interface, its error, and the field types of native kinds."""
