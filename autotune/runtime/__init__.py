"""Runtimes: something that can run a plan. The parent speaks to them; only a worker opens a GPU."""
