"""Storage: one store, in a SQLite file or in Postgres.

Importable by services and the wiring (app, worker, cli). Only this package and the wiring know
SQLAlchemy; its errors are mapped to errors of this project here.

``statements`` holds the queries, functions of a transaction in a module for each subject;
``sums`` the exact arithmetic of running sums, which knows no database.
"""

from sfumato.aggregator.storage.copy import copy_database
from sfumato.aggregator.storage.files import back_up_file, describe_damage, path_of
from sfumato.aggregator.storage.schema import migrate_database
from sfumato.aggregator.storage.statements.references import Identified
from sfumato.aggregator.storage.store import Store, open_store, prepare_database
from sfumato.aggregator.storage.sums.layout import Layout
from sfumato.aggregator.storage.transaction import Transaction

__all__ = [
    "Identified",
    "Layout",
    "Store",
    "Transaction",
    "back_up_file",
    "copy_database",
    "describe_damage",
    "migrate_database",
    "open_store",
    "path_of",
    "prepare_database",
]
