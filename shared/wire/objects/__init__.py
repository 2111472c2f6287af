"""Objects of the REST interface, each declared once for the server and for its clients.

Importable by every package. Nothing is imported here: a device loads :mod:`.devices` alone.
"""
