"""What ResourceRegistries select: which kinds of which members are read, and where they are written besides."""
