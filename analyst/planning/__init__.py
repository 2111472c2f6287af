"""Plans before a study starts: advice, making and explaining (``sfumato plan``)."""
