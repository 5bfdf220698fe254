"""Whole arms: from base model and logs through the stages to a row of the table."""
