"""What all pages share: rendering, languages, formats, live rows, forms, exports."""
