"""Devices: enrolment, keys, signed requests, and the roster for operators."""
