"""Notebooks to copy: load results, select by label, fit, plot, conclude."""
