"""The sub-commands that a server brings to `sfumato`, from `serve` to `copy`.

Plugged in by entry points; imported by nothing else.
"""

from aggregator.cli.backups import backup, copy, restore
from aggregator.cli.checking import check_store
from aggregator.cli.keys import audit, key
from aggregator.cli.migrating import migrate
from aggregator.cli.serving import serve
from aggregator.cli.working import worker

__all__ = [
    "audit",
    "backup",
    "check_store",
    "copy",
    "key",
    "migrate",
    "restore",
    "serve",
    "worker",
]
