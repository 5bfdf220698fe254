"""Where a model comes from: a folder, the hub, or raised here; and the engine that writes."""
