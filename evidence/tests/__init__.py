"""Tests of experiments, results, tables and figures: pytest evidence/tests."""
