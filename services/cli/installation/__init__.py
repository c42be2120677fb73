"""An installation on one machine: what it consists of, and how it starts. Watching its processes is in supervision."""
