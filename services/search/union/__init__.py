"""What answers of several members add up to: versions, pages, marks, forms and events; no I/O."""
