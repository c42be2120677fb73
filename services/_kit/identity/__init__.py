"""Who answers at an endpoint: read over a connection of its own, and asked before its lists count."""
