"""What the control plane and its members hold, side by side: the commands get and top."""
