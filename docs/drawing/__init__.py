"""The figures of the book, one module a chapter; each returns its figures by name (`FIGURES`)."""
