"""Writes captures of the archive to WARC and WACZ files."""
