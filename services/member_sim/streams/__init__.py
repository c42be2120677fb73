"""Byte streams between a client and a container: channels over WebSocket, SPDY/3.1, and what both carry."""
