"""Stands where PyTorch would be, for the tests that must pass without it."""

raise ImportError("PyTorch is hidden from this test")
