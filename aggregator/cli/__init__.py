"""The sub-commands that a server brings to `sfumato`: serve, worker, key, migrate.

Plugged in by entry points; imported by nothing else.
"""

from aggregator.cli.keys import key
from aggregator.cli.migrating import migrate
from aggregator.cli.serving import serve
from aggregator.cli.working import worker

__all__ = ["key", "migrate", "serve", "worker"]
