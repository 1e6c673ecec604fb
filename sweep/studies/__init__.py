"""The studies: what a sweep computes for each point of its grid, and against which limit."""
