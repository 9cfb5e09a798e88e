"""The dashboard's pages: a module for each noun, with its routes."""
