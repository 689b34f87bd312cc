"""What clients ask of a broker: connections, and a file for each family of requests.

Begin with `connection.py` and `dispatch.py`.
"""
