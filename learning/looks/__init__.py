"""A second look: what records add up to around published centres, as measured answers."""
