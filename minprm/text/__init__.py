"""Messages to token ids and back, as a model's chat template says."""
