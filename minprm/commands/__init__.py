"""What a person types: minprm train, minprm evaluate; their flags and presets."""
