"""Commands about members: join, unjoin, register, taint, tokens, and signed accounts of agents."""
