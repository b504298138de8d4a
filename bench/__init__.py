"""Benchmarks, run on purpose with `make bench`. Each figure stands beside a baseline measured in the same process."""
