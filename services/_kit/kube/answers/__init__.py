"""Reads answers of other systems within limits: bytes, lines, pages, values, time, and a share of the event loop."""
