"""The figures of the book, a module a chapter or section. `FIGURES` of each has them by name."""
