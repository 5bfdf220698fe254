"""What an arm is made of: each stage is a function of a Run."""
