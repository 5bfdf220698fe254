"""minprm: how an LLM agent learns to think from logs that hold only actions."""
