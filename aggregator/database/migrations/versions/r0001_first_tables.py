"""The first tables: those of the records, until the first release freezes them."""

from alembic import op

from sfumato.aggregator.database.schema import LATEST_REVISION
from sfumato.aggregator.database.tables import METADATA

revision = LATEST_REVISION
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    METADATA.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    """Drop all tables."""
    METADATA.drop_all(op.get_bind(), checkfirst=False)
