"""The first tables: those of the models, until the first release freezes them."""

from alembic import op

from sfumato.aggregator.storage.models import Base
from sfumato.aggregator.storage.schema import LATEST_REVISION

revision = LATEST_REVISION
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    Base.metadata.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    """Drop all tables."""
    Base.metadata.drop_all(op.get_bind(), checkfirst=False)
