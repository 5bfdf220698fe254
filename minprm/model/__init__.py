"""The model in its three roles: it writes, it is read, it learns."""
