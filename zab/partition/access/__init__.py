"""Principals of clients, and what they may do. Pure.

Begin with `principals.py`.
"""
