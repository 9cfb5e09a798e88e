"""Statistics of clients, the programs that harvest the provider: counted in memory, stored in tables."""
