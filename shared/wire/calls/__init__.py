"""Calls of the REST interface, each declared once for the server and for its clients.

Importable by every package. Nothing is imported here: each resource has a module, and in it a class
whose attributes are its calls.
"""
