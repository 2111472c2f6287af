import pytest

from aggregator.ports import Store
from aggregator.storage import SqlStore
from tests.aggregator.storage.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self, memory_store: Store) -> Store:
        return memory_store


class TestSqlStore(StoreContract):
    @pytest.fixture
    def store(self, sql_store: SqlStore) -> Store:
        return sql_store
