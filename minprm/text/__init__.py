"""Text to tokens and back: chat templates, and logs on disk."""
