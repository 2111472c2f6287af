"""What every store must do; a test class for each store inherits these tests."""

from __future__ import annotations

from tests.aggregator.storage.contract_decodes import DecodeContract
from tests.aggregator.storage.contract_devices import DeviceContract
from tests.aggregator.storage.contract_rows import RowContract
from tests.aggregator.storage.contract_sketches import SketchContract
from tests.aggregator.storage.contract_studies import StudyContract


class StoreContract(RowContract, StudyContract, DeviceContract, SketchContract, DecodeContract):
    """Tests of the port; a subclass gives the fixture ``store``."""
