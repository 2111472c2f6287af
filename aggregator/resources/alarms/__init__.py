"""Schedules, alarms and deliveries."""
