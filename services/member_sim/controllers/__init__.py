"""The controllers of a simulated cluster: one pure decision per kind of object."""
