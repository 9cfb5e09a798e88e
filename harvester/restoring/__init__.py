"""Restore sites: fetch what a Zatva provider lists, and write a browsable copy or WARC files."""
