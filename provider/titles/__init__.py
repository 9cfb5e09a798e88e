"""Titles: the sites that the archive keeps, as catalogue records over their captures."""
