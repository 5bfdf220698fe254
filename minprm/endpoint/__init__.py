"""The door for a user's own agent: it asks over HTTP, and its turns become Samples."""
