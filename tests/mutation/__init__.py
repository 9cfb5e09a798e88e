"""The mutation run: changes the code in small ways and counts the changes that the tests notice."""
