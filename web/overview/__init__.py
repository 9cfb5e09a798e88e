"""The start page, the guide, and list exports."""
