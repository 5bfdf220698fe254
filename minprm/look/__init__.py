"""Who listens to a run: held-out looks, groups for people, metrics, screen, TensorBoard."""
