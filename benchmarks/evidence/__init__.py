"""Experiments about Act-PRM whose outcome was open: docs/evidence.md tells what came out.

    python -m benchmarks.evidence               # all of them, in the background; go on after Ctrl-C
    python -m benchmarks.evidence.scarce        # one of them

Each file asks one question, and says in its first lines what would have answered it with no. The
recipe was chosen on other seeds (101 and 201 to 208) and validation tasks, and then left alone.
"""
