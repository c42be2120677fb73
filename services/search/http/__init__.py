"""The API of search: who asks, for what, and how it is answered."""
