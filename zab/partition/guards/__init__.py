"""Which permissions each request needs, and what is left of it without them. Pure.

Begin with `guards.py`.
"""
