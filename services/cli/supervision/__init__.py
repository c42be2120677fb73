"""What keeps the processes of an installation in order: who supervises, who is left over, who hangs."""
