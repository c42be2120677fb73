"""Commands about objects of the control plane and of members: get, apply, interpret."""
