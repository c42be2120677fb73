"""What other systems answer, held within limits: bytes, lines, pages, values, time, and a share of the event loop."""
