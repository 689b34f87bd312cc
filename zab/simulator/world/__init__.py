"""The simulated world, which knows no service: time and order, wires, disks that lose and tear, and the trace.

Imports `datatree.log` alone.
"""
