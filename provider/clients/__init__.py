"""Who harvests us: counted in memory, written to tables, read from them."""
