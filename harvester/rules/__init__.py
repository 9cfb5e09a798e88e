"""Processing of records before they are stored: filters, normalisation and validation."""
