"""Statements on the tables, by subject: functions that take the transaction first."""
