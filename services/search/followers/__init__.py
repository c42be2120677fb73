"""Lists and watches of members: what fills the index and keeps it in step."""
