"""The database as a whole: all tables, their schema and migrations, and what reads every table."""
