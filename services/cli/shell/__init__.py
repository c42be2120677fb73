"""What people meet at the shell in every program: its root, versions, choices of options."""
