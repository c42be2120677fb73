"""What validation says of single values: the words and reasons, and the bounds of numbers."""
