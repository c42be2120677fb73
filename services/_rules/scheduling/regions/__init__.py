"""Selection of clusters by region and other spread constraints."""
