"""Figures of chapter 1, the idea."""

FIGURES = {}
