"""What the charts have besides their templates: versions, schemas of values, files made of the description."""
