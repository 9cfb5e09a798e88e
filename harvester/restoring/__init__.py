"""Restores sites: what a Zatva provider lists is fetched, and becomes a copy to look at or WARC files."""
