"""The store of harvested records: one file per record, and their rows."""
