"""Steps of a start in containers: the files that all of them share, then definitions and members."""
