"""What is done to records before they are stored: select, add values, check."""
