"""Statistics of harvesters: counted in memory, written to tables, and read from them."""
