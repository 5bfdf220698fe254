"""Experiments about Act-PRM whose outcome was open: docs/evidence.md tells what came out.

Each file asks one question, and says in its first lines what would have answered it with no. The
recipe was chosen on other seeds (101 and 201 to 208) and validation tasks, and then left alone.
ablations, objectives, idea and right_thoughts measure for the chapters before that one.
"""
