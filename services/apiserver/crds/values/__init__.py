"""What validation says of single values: the words and reasons of each release, and the bounds of numbers."""
