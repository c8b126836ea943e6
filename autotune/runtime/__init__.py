"""Runtimes: something that can run a plan. The parent speaks to them; only a worker opens a GPU."""

DEFAULT_RUNTIME = "wgpu"
"""wgpu-native, whose WGSL compiler is naga."""
