"""The installation on one page, and what waits for an operator's word."""
