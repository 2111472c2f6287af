"""The literature's central methods of private clustering, on integers with exact noise."""
