"""Devices, their keys, and enrolment."""
