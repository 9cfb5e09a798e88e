"""What lies in archive files: records, captures, documents read back."""
