"""Schedules of decodes and timelines, and alarms that they send to webhooks."""
