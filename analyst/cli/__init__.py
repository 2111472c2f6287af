"""The commands of people who publish studies, sketch files and read results.

Plugged in by entry points of ``sfumato``, a module for each command. The server is named by
``--url`` or ``SFUMATO_URL``, the key by ``--key`` or ``SFUMATO_KEY``.
"""
