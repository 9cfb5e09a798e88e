"""Reading archive files: records, captures, and archived documents."""
