"""Frozen data: what the other layers take, return and record. Standard library only."""
