"""People's logs: read in any known format, and written."""
