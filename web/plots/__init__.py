"""Plots as SVG, made on the server: themed by the stylesheet, with a title for each mark."""
