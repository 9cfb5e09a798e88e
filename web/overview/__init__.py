"""The first page, the guide, and exports of lists."""
