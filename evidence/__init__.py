"""Does it work? Experiments, what they measured, and what writes that into the book: README.md.

    python -m evidence                       # all experiments, in the background
    python -m evidence.experiments.scarce    # one of them

experiments/   what was asked, a program a question
results/       what came out, a file of JSON each
drawings/      the figures, a module a chapter or section
tests/         tests of all that
"""
