"""Shared by all pages: rendering, languages, formats, live rows, forms, exports."""
