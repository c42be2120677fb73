"""The global proxy: all members as one API server, by what ResourceRegistries select."""
