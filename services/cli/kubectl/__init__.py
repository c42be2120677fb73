"""Commands that kubectl carries out, in the control plane or in a member behind its proxy."""
