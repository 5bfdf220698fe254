"""What several test files use. No test stands here."""
