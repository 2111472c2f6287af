"""The sub-commands that a server brings to `sfumato`: serve, worker, key, migrate, and more.

Plugged in by entry points; imported by nothing else.
"""

from aggregator.cli.checking import check_store
from aggregator.cli.keys import audit, key
from aggregator.cli.migrating import migrate
from aggregator.cli.serving import serve
from aggregator.cli.working import worker

__all__ = ["audit", "check_store", "key", "migrate", "serve", "worker"]
