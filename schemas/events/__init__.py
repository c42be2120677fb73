"""The facts of the control plane: one file per aggregate, every event a frozen Struct tagged `Name.vN`."""
