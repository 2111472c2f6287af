"""Where the server keeps things: in a database, or in memory.

Importable by the wiring (app, worker, cli) and by tests. Only this package and the wiring know
SQLAlchemy; what a foreign library raises is turned into errors of this project here.
"""

from aggregator.storage.copying import copy_database
from aggregator.storage.files import back_up_file, path_of
from aggregator.storage.memory import MemoryStore
from aggregator.storage.opening import open_store, prepare_database
from aggregator.storage.schema import migrate_database
from aggregator.storage.sql import SqlStore

__all__ = [
    "MemoryStore",
    "SqlStore",
    "back_up_file",
    "copy_database",
    "migrate_database",
    "open_store",
    "path_of",
    "prepare_database",
]
