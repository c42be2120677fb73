"""Objects of members as compact bytes: kept, found by name, label and shape, and read in pages."""
