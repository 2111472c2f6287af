"""Campaigns: begin, report, and publish the next phase when one is over."""
