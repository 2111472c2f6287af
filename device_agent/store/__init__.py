"""What a device remembers: key, ledger, open windows and outbox, in one folder of mode 0700.

Only ``device_agent.agent`` and tests may import it. One SQLite file holds everything but the key,
so that a release is one transaction. The store knows nothing of sources, sketches or the network.
"""

from device_agent.store.database import (
    DATABASE_NAME,
    check_folder,
    create_database,
    open_database,
    sum_ledger,
    transaction,
)
from device_agent.store.forgetting import (
    erase_database,
    erase_device,
    erase_key,
    erase_set_aside,
    find_forgotten_study,
)
from device_agent.store.identity import (
    Identity,
    KeyState,
    load_identity,
    require_identity,
    save_generation,
    save_identity,
)
from device_agent.store.journal import JOURNAL_NAME
from device_agent.store.key import DeviceKey, create_key, load_key
from device_agent.store.key_change import (
    abandon_key_change,
    begin_key_change,
    finish_key_change,
    list_signed,
    load_keys,
    load_retired,
)
from device_agent.store.ledger import LedgerEntry, load_entries
from device_agent.store.lock import lock_folder
from device_agent.store.notice import StudyNotice, load_notice, save_notice
from device_agent.store.outbox import (
    OutboxCounts,
    OutboxSketch,
    count_sketches,
    count_waiting_bytes,
    due_sketches,
    find_sketch,
    first_due,
    list_sketches,
    load_message,
    mark_attempt,
    mark_sent,
    mark_shelved,
    purge_sent,
    send_again,
)
from device_agent.store.positions import StoredPosition, load_positions, write_positions
from device_agent.store.repair import holding, repair
from device_agent.store.slots import SlotSum, adding_to_slots, load_slot, write_slot
from device_agent.store.streams import (
    NewRelease,
    StreamState,
    checkpoint,
    commit_release,
    list_streams,
    load_stream,
    resume_stream,
    suspend_stream,
)

__all__ = [
    "DATABASE_NAME",
    "JOURNAL_NAME",
    "DeviceKey",
    "Identity",
    "KeyState",
    "LedgerEntry",
    "NewRelease",
    "OutboxCounts",
    "OutboxSketch",
    "SlotSum",
    "StoredPosition",
    "StreamState",
    "StudyNotice",
    "abandon_key_change",
    "adding_to_slots",
    "begin_key_change",
    "check_folder",
    "checkpoint",
    "commit_release",
    "count_sketches",
    "count_waiting_bytes",
    "create_database",
    "create_key",
    "due_sketches",
    "erase_database",
    "erase_device",
    "erase_key",
    "erase_set_aside",
    "find_forgotten_study",
    "find_sketch",
    "finish_key_change",
    "first_due",
    "holding",
    "list_signed",
    "list_sketches",
    "list_streams",
    "load_entries",
    "load_identity",
    "load_key",
    "load_keys",
    "load_message",
    "load_notice",
    "load_positions",
    "load_retired",
    "load_slot",
    "load_stream",
    "lock_folder",
    "mark_attempt",
    "mark_sent",
    "mark_shelved",
    "open_database",
    "purge_sent",
    "repair",
    "require_identity",
    "resume_stream",
    "save_generation",
    "save_identity",
    "save_notice",
    "send_again",
    "sum_ledger",
    "suspend_stream",
    "transaction",
    "write_positions",
    "write_slot",
]
