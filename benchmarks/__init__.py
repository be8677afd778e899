"""Benchmarks: each script measures ragwright beside other tools in the same run."""
