"""Resources: a folder for each, with its records, its store and its services.

Records are frozen values; identities and digests are bytes, times seconds since 1970. A store has
the tables, derived from the records, and the statements on them. Services use stores, and know
neither HTTP nor SQL. ``parts`` is what all services share.
"""
