"""Fluzo: a local-first agentic coding runtime. Importing this package loads nothing else."""

__version__ = "0.1.0"
