"""What the tables hold: documents and their sets, and the changes that date them anew."""
